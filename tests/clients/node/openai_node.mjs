// A session of openai-node.

import OpenAI from "openai";
import {
  API_KEY,
  BASE_URL,
  ERRORS,
  MODEL,
  QUESTION,
  SCHEMA,
  WEATHER,
  keyFor,
  run,
} from "./steps.mjs";

const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 1, timeout: 30000 });
const GREEDY = { model: MODEL, temperature: 0, max_tokens: 24 };
const MESSAGES = [{ role: "user", content: QUESTION }];
const TOOLS = [{ type: "function", function: WEATHER }];

const create = (extra) => client.chat.completions.create({ messages: MESSAGES, ...GREEDY, ...extra });
const describe = (error) => [error.constructor.name, error.status ?? null, error.code ?? null];

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

const calls = ({ tool_calls }) =>
  tool_calls.map((c) => [c.id, c.function.name, c.function.arguments]);

// The message with the tool calls, and that of a stream.
async function callTools(tool_choice) {
  const request = { ...GREEDY, messages: MESSAGES, tools: TOOLS, tool_choice, max_tokens: 200 };
  const runner = client.chat.completions.stream(request);
  const streamed = (await runner.finalChatCompletion()).choices[0].message;
  return [(await create(request)).choices[0].message, streamed];
}

await run({
  async plain() {
    const { choices } = await create({});
    return [choices[0].message.content, choices[0].finish_reason];
  },

  async stream() {
    const choices = (await collect(await create({ stream: true }))).map((c) => c.choices[0]);
    const pieces = choices.map((choice) => choice.delta.content ?? "");
    const reason = choices.at(-1).finish_reason;
    return [pieces.join(""), reason, pieces.filter(Boolean).length > 1];
  },

  async usage() {
    const whole = (await create({})).usage;
    const chunks = await collect(
      await create({ stream: true, stream_options: { include_usage: true } }),
    );
    const { usage, choices } = chunks.at(-1);
    const isAlone = choices.length === 0 && chunks.slice(0, -1).every((c) => c.usage == null);
    return [
      [whole.prompt_tokens, whole.completion_tokens],
      [usage.prompt_tokens, usage.completion_tokens],
      isAlone,
    ];
  },

  async tools() {
    const [message, streamed] = await callTools("auto");
    const results = message.tool_calls.map((call) => ({
      role: "tool",
      tool_call_id: call.id,
      content: "rain",
    }));
    const last = await create({ messages: [...MESSAGES, message, ...results], tools: TOOLS });
    return [calls(message), calls(streamed), last.choices[0].message.content];
  },

  async forced_tool() {
    return (await callTools({ type: "function", function: { name: WEATHER.name } })).map(calls);
  },

  async json_schema() {
    const json_schema = { name: "person", strict: true, schema: SCHEMA };
    const answer = await create({
      response_format: { type: "json_schema", json_schema },
      max_tokens: 200,
    });
    return JSON.parse(answer.choices[0].message.content);
  },

  async errors() {
    const results = {};
    for (const [name, [model, content, top_p]] of Object.entries(ERRORS)) {
      try {
        const { completions } = client.withOptions({ apiKey: keyFor(name) }).chat;
        await completions.create({ model, messages: [{ role: "user", content }], top_p });
      } catch (error) {
        results[name] = describe(error);
      }
    }
    return results;
  },

  async broken() {
    try {
      await collect(
        await create({ messages: [{ role: "user", content: "break" }], stream: true }),
      );
    } catch (error) {
      return describe(error);
    }
    return "silent";
  },

  async cancel() {
    const messages = [{ role: "user", content: "endless" }];
    const stream = await create({ messages, stream: true, max_tokens: 300 });
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) {
        stream.controller.abort();
        return "cancelled";
      }
    }
    return "completed";
  },

  async models() {
    const listed = await collect(client.models.list());
    return [listed.map((model) => model.id), (await client.models.retrieve(MODEL)).id];
  },
});

// A session of Vercel's AI SDK with @ai-sdk/openai-compatible.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, jsonSchema, streamText, tool } from "ai";
import { BASE_URL, ERRORS, MODEL, QUESTION, SCHEMA, WEATHER, keyFor, run } from "./steps.mjs";

const providerWith = (apiKey) =>
  createOpenAICompatible({
    name: "paceline",
    baseURL: BASE_URL,
    apiKey,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
const GREEDY = { model: providerWith(keyFor())(MODEL), temperature: 0, maxOutputTokens: 24, maxRetries: 1 };
const TOOLS = {
  [WEATHER.name]: tool({
    description: WEATHER.description,
    inputSchema: jsonSchema(WEATHER.parameters),
  }),
};

const silent = () => {};
const generate = (extra) => generateText({ prompt: QUESTION, ...GREEDY, ...extra });
const streamed = (extra) =>
  streamText({ prompt: QUESTION, ...GREEDY, onError: silent, ...extra });
const count = ({ inputTokens, outputTokens }) => [inputTokens, outputTokens];
const describe = (error) => {
  const { statusCode, data } = error.lastError ?? error;
  return [error.constructor.name, statusCode ?? null, data?.error?.code ?? null];
};

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

const calls = async ({ toolCalls }) =>
  (await toolCalls).map((c) => [c.toolCallId, c.toolName, c.input]);

// The answer with the tool calls, and that of a stream.
async function callTools(toolChoice) {
  const options = { tools: TOOLS, toolChoice, maxOutputTokens: 200 };
  const stream = streamed(options);
  await collect(stream.fullStream);
  return [await generate(options), stream];
}

await run({
  async plain() {
    const { text, finishReason } = await generate({});
    return [text, finishReason];
  },

  async stream() {
    const result = streamed({});
    const pieces = await collect(result.textStream);
    return [pieces.join(""), await result.finishReason, pieces.filter(Boolean).length > 1];
  },

  async usage() {
    const result = streamed({});
    await collect(result.textStream);
    return [count((await generate({})).usage), count(await result.usage), true];
  },

  async tools() {
    const [first, stream] = await callTools("auto");
    const results = first.toolCalls.map(({ toolCallId, toolName }) => ({
      type: "tool-result",
      toolCallId,
      toolName,
      output: { type: "text", value: "rain" },
    }));
    const messages = [
      { role: "user", content: QUESTION },
      ...first.response.messages,
      { role: "tool", content: results },
    ];
    const last = await generateText({ ...GREEDY, tools: TOOLS, messages });
    return [await calls(first), await calls(stream), last.text];
  },

  async forced_tool() {
    const answers = await callTools({ type: "tool", toolName: WEATHER.name });
    return Promise.all(answers.map(calls));
  },

  async json_schema() {
    const output = Output.object({ schema: jsonSchema(SCHEMA), name: "person" });
    return (await generate({ output, maxOutputTokens: 200 })).output;
  },

  async errors() {
    const results = {};
    for (const [name, [model, prompt, topP]] of Object.entries(ERRORS)) {
      try {
        await generate({ model: providerWith(keyFor(name))(model), prompt, topP });
      } catch (error) {
        results[name] = describe(error);
      }
    }
    return results;
  },

  async broken() {
    for (const part of await collect(streamed({ prompt: "break" }).fullStream)) {
      if (part.type === "error") return "reported";
    }
    return "silent";
  },

  async cancel() {
    const controller = new AbortController();
    const { textStream } = streamed({
      prompt: "endless",
      maxOutputTokens: 300,
      abortSignal: controller.signal,
    });
    for await (const _ of textStream) {
      controller.abort();
      return "cancelled";
    }
    return "completed";
  },
});

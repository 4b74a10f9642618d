// The prompts, schemas and runner that the JavaScript sessions share; see sessions/steps.py.

export const [BASE_URL, MODEL, ...wanted] = process.argv.slice(2);

export const API_KEY = process.env.SESSION_API_KEY;
export const keyFor = (error) => (error === "bad key" ? "wrong" : API_KEY);

export const QUESTION = process.env.SESSION_QUESTION;
export const SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 8 },
    age: { type: "integer", minimum: 0, maximum: 99 },
  },
  required: ["name", "age"],
  additionalProperties: false,
};
export const WEATHER = {
  name: "get_weather",
  description: "The weather in a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string", enum: ["Zürich", "Genève"] } },
    required: ["city"],
  },
};
// [model, prompt, top_p] of the requests that must fail
export const ERRORS = Object.fromEntries(
  Object.entries(JSON.parse(process.env.SESSION_ERRORS)).map(([name, [model, prompt, extra]]) => [
    name,
    [model ?? MODEL, prompt, extra.top_p],
  ]),
);

export async function run(steps) {
  const results = {};
  for (const name of wanted) results[name] = await steps[name]();
  console.log(JSON.stringify(results));
}

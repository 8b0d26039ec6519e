// An agent of the AI SDK with a shell and a writer of files.
// node --experimental-import-meta-resolve ai_sdk_agent.mjs <package.json of the SDK> <client> <address> <model> <prompt>
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const [home, client, address, model, prompt] = process.argv.slice(2);
const load = (name) => import(import.meta.resolve(name, pathToFileURL(home)));
const { jsonSchema, streamText, tool, ...sdk } = await load("ai");
const stopAt = sdk.isStepCount ?? sdk.stepCountIs;

const CLIENTS = {
  chat: async (options) =>
    (await load("@ai-sdk/openai-compatible")).createOpenAICompatible({ name: "any", ...options })(model),
  responses: async (options) => (await load("@ai-sdk/openai")).createOpenAI(options).responses(model),
  messages: async (options) => (await load("@ai-sdk/anthropic")).createAnthropic(options)(model),
};

function text(...names) {
  const properties = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  return jsonSchema({ type: "object", properties, required: names.slice(0, 1) });
}

const tools = {
  bash: tool({
    description: "Run a command.",
    inputSchema: text("command", "description"),
    execute: async ({ command }) => (await promisify(execFile)("/bin/sh", ["-c", command])).stdout,
  }),
  write: tool({
    description: "Write a file.",
    inputSchema: text("path", "content"),
    execute: async ({ path, content }) => {
      await writeFile(path, content ?? "");
      return "written";
    },
  }),
};

globalThis.AI_SDK_LOG_WARNINGS = false;
let failure;
const stream = streamText({
  model: await CLIENTS[client]({ baseURL: `${address}/v1`, apiKey: process.env.WHOLECALL_KEY }),
  prompt,
  tools,
  stopWhen: stopAt(20),
  onError: ({ error }) => (failure ??= error),
});
await stream.consumeStream();
if (failure) throw failure;
console.log(await stream.text);

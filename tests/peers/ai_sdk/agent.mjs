// An agent made of the AI SDK. Tasks come as lines of JSON, and are done at the same time.
import { createInterface } from "node:readline";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

globalThis.AI_SDK_LOG_WARNINGS = false;

const MODELS = {
  chat: (task) => createOpenAI(address(task)).chat(task.model),
  responses: (task) => createOpenAI(address(task)).responses(task.model),
  messages: (task) => createAnthropic(address(task))(task.model),
  compatible: (task) =>
    createOpenAICompatible({ name: "any", ...address(task) })(task.model),
};

function address(task) {
  return { baseURL: `${task.url}/v1`, apiKey: task.key };
}

function write(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function tools(task) {
  const offered = task.tools.map(({ name, description, parameters }) => [
    name,
    tool({
      description,
      inputSchema: jsonSchema(parameters),
      execute: async (input) => {
        write({ id: task.id, tool: name, arguments: input });
        return `${name} is done`;
      },
    }),
  ]);
  return Object.fromEntries(offered);
}

async function answer(task) {
  const asked = {
    model: MODELS[task.way](task),
    prompt: task.prompt,
    tools: tools(task),
    stopWhen: stepCountIs(task.turns),
    maxOutputTokens: task.tokens,
  };
  if (!task.streamed) return (await generateText(asked)).text;
  let failure;
  const stream = streamText({ ...asked, onError: ({ error }) => (failure ??= error) });
  await stream.consumeStream();
  if (failure) throw failure;
  return await stream.text;
}

for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  answer(task).then(
    (said) => write({ id: task.id, said }),
    (error) => write({ id: task.id, error: String(error) }),
  );
}

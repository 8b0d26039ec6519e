// A form for an object of texts, numbers, booleans and choices, as MCP servers ask for them.

import { make } from "./dom.js";

export function makeForm({ properties = {}, required = [] }) {
  const fields = Object.entries(properties).map(([name, schema]) => makeField(name, schema, required.includes(name)));
  const element = make("div", { class: "form", hidden: !fields.length }, fields.map((field) => field.element));
  const read = () => Object.fromEntries(fields.map((field) => [field.name, field.read()]).filter(([, value]) => value !== undefined));
  return { element, read };
}

function makeField(name, schema, isRequired) {
  const label = `${schema.title ?? name}${isRequired ? "" : " (optional)"}`;
  const { input, read } = makeInput(name, schema, isRequired);
  const about = schema.description ? make("span", { class: "soft" }, schema.description) : null;
  return { name, read, element: make("label", { class: "field" }, make("span", {}, label), input, about) };
}

function makeInput(name, schema, isRequired) {
  const choices = schema.enum ?? schema.oneOf?.map((choice) => choice.const);
  if (schema.type === "array") return makeChoice(schema.items?.enum ?? schema.items?.anyOf?.map((choice) => choice.const) ?? [], { name, multiple: true });
  if (choices) return makeChoice(isRequired ? choices : ["", ...choices], { name, initial: schema.default });
  if (schema.type === "boolean") {
    const input = make("input", { name, type: "checkbox", checked: schema.default === true });
    return { input, read: () => input.checked };
  }
  const isNumber = schema.type === "number" || schema.type === "integer";
  const input = make("input", { name, type: isNumber ? "number" : "text", step: schema.type === "integer" ? "1" : "any", value: schema.default, maxlength: "2000", autocomplete: "off" });
  const read = () => (input.value === "" && !(isRequired && !isNumber) ? undefined : isNumber ? Number(input.value) : input.value);
  return { input, read };
}

function makeChoice(choices, { name, multiple = false, initial = undefined }) {
  const options = choices.map((choice) => make("option", { value: choice, selected: choice === initial }, choice));
  const input = make("select", { name, multiple }, options);
  const read = () => (multiple ? [...input.selectedOptions].map((option) => option.value) : input.value || undefined);
  return { input, read };
}

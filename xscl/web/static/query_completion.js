// Completion of queries from what the reader may see: streams, names of elements with counts and
// samples, values, the variables of the query.

import {
  ARITHMETIC_WORDS,
  CALENDAR_WORDS,
  FUNCTIONS,
  KEYWORDS,
  PREDICATE_WORDS,
  SIDE_WORDS,
  WINDOW_WORDS,
} from "/static/query_words.js";

const WORD = /[\w.:*@\u00c0-\uffff-]*$/;
const VALID = /^[\w.:*@\u00c0-\uffff-]*$/;
const TOKEN =
  /--[^\n]*|"[^"]*("|$)|'[^']*('|$)|->|\/\/?|[[\]{}()]|[A-Za-z_\u00c0-\uffff](?:[\w.:'\u00b7\u00c0-\uffff]|-(?!>))*|[^\s]/g;
const oneOf = (words) => new RegExp(`^(?:${words.join("|")})$`, "i");
const OPERATORS = oneOf([...PREDICATE_WORDS, ...ARITHMETIC_WORDS, "NOT"]);
const OUTSIDE = oneOf(KEYWORDS);
const CALENDAR = oneOf(CALENDAR_WORDS);
const SIDES = SIDE_WORDS.map((word) => `ELSE ${word}`);
const BETWEEN = ["FOLLOWED BY", "NOT FOLLOWED BY", "JOIN", "SYMMETRIC JOIN", "NEXT", "FOLD", "LONGEST FOLD"];
const ENDING = ["ELSE", ...SIDES, "PUBLISH", "AS"];
const BEGIN = ["SELECT * FROM", "SELECT DISTINCT * FROM"];
const INSTANTS = { label: "AT", apply: "AT '0 9 * * MON'->t", detail: "instants of a calendar" };

let streams = null; // a promise of the streams that the reader may read
const known = new Map(); // promises of their elements, by stream

async function json(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function allStreams() {
  const found = [];
  let path = "/v1/streams?limit=500";
  while (path && found.length < 5000) {
    const page = await json(path);
    found.push(...page.items);
    path = page.next === null ? null : `/v1/streams?limit=500&after=${encodeURIComponent(page.next)}`;
  }
  return found;
}

function elementsOf(stream) {
  if (!known.has(stream)) {
    const asked = json(`/v1/streams/${encodeURIComponent(stream)}/elements`).catch(() => {
      known.delete(stream); // asked again later: there may be no such stream yet
      return { documents: 0, elements: [] };
    });
    known.set(stream, asked);
  }
  return known.get(stream);
}

// Read the text before the cursor: the stream of its block, the element that a name would be below,
// the last one that was named, brackets, and whether it ends within a string or after a slash.
export function place(text) {
  const found = { stream: null, element: null, named: null, within: [], slash: "", string: false, last: "" };
  const above = []; // the elements outside of each open bracket
  for (const match of text.matchAll(TOKEN)) {
    const token = match[0];
    if (token.startsWith("--")) continue;
    const ended = match.index + token.length === text.length;
    const slash = found.slash;
    found.slash = "";
    if (token[0] === '"' || token[0] === "'") {
      found.string = ended && (token.length === 1 || token.at(-1) !== token[0]);
    } else if (token === "/" || token === "//") {
      if (found.last === "." || found.last === "" || found.within.at(-1) === "(") found.element = above.at(-1) ?? found.element;
      found.slash = token;
    } else if ("[{(".includes(token)) {
      found.within.push(token);
      above.push(found.element);
    } else if ("]})".includes(token)) {
      found.within.pop();
      found.element = above.pop() ?? null;
    } else if (/^[A-Za-z_\u00c0-\uffff]/.test(token) && found.last !== "->") {
      const inside = found.within.includes("[") || found.within.includes("{");
      if (ended && WORD.exec(text)[0] === token) {
        found.slash = slash; // the word at the cursor is still being written
      } else if (slash || (inside && !OPERATORS.test(token))) {
        found.element = token;
        found.named = token;
      } else if (!inside && CALENDAR.test(token) && /^\s*['"]/.test(text.slice(match.index + token.length))) {
        found.stream = "AT"; // no stream of documents: nothing is known of its elements
      } else if (!inside && !OUTSIDE.test(token)) {
        found.stream = token;
        found.element = null;
      }
    } else if (token === "@") {
      found.slash = slash;
    } else if (",<>!+*".includes(token) && found.within.length > 0) {
      found.element = above.at(-1) ?? found.element;
    }
    found.last = token;
  }
  return found;
}

// The elements that can stand after a slash: the children of an element, or all after two slashes.
function names(elements, at) {
  const options = new Map();
  for (const each of elements) {
    const name = each.path.at(-1);
    const parent = each.path.at(-2);
    const fits = at.slash === "//" ? true : at.element === null ? each.path.length === 1 : parent === at.element;
    if (!fits) continue;
    const one = options.get(name) ?? { documents: 0, samples: [] };
    one.documents = Math.max(one.documents, each.documents);
    one.samples = [...new Set([...one.samples, ...each.samples])].slice(0, 4);
    options.set(name, one);
  }
  return options;
}

function bound(text) {
  return [...new Set([...text.matchAll(/(?:->|\bAS\s)\s*([A-Za-z_][\w.'-]*)/gi)].map((match) => match[1]))];
}

async function values(at, from) {
  if (!at.stream) return null;
  const { elements } = await elementsOf(at.stream);
  const samples = elements.filter((each) => each.path.at(-1).replace("@", "") === at.named).flatMap((each) => each.samples);
  const options = [...new Set(samples)].map((label) => ({ label, type: "text" }));
  return { from, options, validFor: /^[^'"]*$/ };
}

async function paths(at, from) {
  if (!at.stream) return null;
  const { documents, elements } = await elementsOf(at.stream);
  let found = names(elements, at);
  if (found.size === 0) found = names(elements, { ...at, slash: "//" });
  const options = [...found].map(([label, one]) => ({
    label,
    detail: `${one.documents} of ${documents}`,
    info: one.samples.length ? `e.g. ${one.samples.join(" · ")}` : undefined,
    boost: Math.round((99 * one.documents) / Math.max(documents, 1)) - 50,
  }));
  return { from, options, validFor: VALID };
}

function predicate(text, from) {
  const options = [
    ...bound(text).map((label) => ({ label, detail: "variable", boost: 50 })),
    ...FUNCTIONS.map((label) => ({ label, apply: `${label}(`, detail: "function" })),
    ...[...PREDICATE_WORDS, ...WINDOW_WORDS].map((label) => ({ label })),
  ];
  return { from, options, validFor: VALID };
}

async function outside(at, from) {
  streams ??= allStreams().catch(() => {
    streams = null;
    return [];
  });
  const found = (await streams).map((each) => ({
    label: each.name,
    detail: `${each.documents} document${each.documents === 1 ? "" : "s"}`,
    boost: each.documents ? 50 : 0,
  }));
  const words = (at.stream === null ? BEGIN : [...BETWEEN, ...ENDING]).map((label) => ({ label, apply: `${label} ` }));
  return { from, options: [...found, INSTANTS, ...words], validFor: VALID };
}

export async function completions(context) {
  const text = context.state.sliceDoc(0, context.pos);
  const at = place(text);
  if (at.string && at.stream === "AT") return null; // a cron expression
  if (at.string) return values(at, 1 + Math.max(text.lastIndexOf("'"), text.lastIndexOf('"')));
  const word = WORD.exec(text)[0];
  const from = context.pos - word.length;
  if (!context.explicit && word === "" && !at.slash) return null;
  if (/->\s*$/.test(text.slice(0, from))) return null; // a new name
  if (at.slash) return paths(at, from);
  const inner = at.within.findLast((each) => each !== "(");
  if (inner === "[") return paths({ ...at, slash: "/" }, from);
  if (inner === "{") return predicate(context.state.doc.toString(), from);
  return outside(at, from);
}

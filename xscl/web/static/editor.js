// What is wrong with a query, or its sentence and join graph, while it is written; the cursor goes
// to the place of an error that the service has found.  The matches of the last 30 days are counted
// when one pauses longer; each further letter ends the count.

import { go, mark, over } from "/static/query_editor.js";

const PAUSE = 350;
const COUNT_PAUSE = 900;

const form = document.getElementById("editor");
const query = document.getElementById("query");
const checked = document.getElementById("checked");
const label = form.querySelector('label[for="query"]').textContent;
const view = over(query, label, () => form.querySelector('button[value="try"]').click());

let timer = 0;
let newest = 0;

const counted = document.getElementById("counted");
let countTimer = 0;
let counting = new AbortController();

// Mark the error of the answer, or the names in it that were never seen.
function markPlaces() {
  const place = (element, severity, message) => ({
    line: Number(element.dataset.line),
    column: Number(element.dataset.column),
    message: message.textContent,
    severity,
  });
  const problem = document.getElementById("problem");
  const excerpt = problem?.querySelector(".excerpt");
  const warnings = [...checked.querySelectorAll(".warnings li")];
  mark(view, [
    ...(excerpt ? [place(excerpt, "error", problem.querySelector("strong"))] : []),
    ...warnings.map((each) => place(each, "warning", each)),
  ]);
}

async function check() {
  const mine = ++newest;
  try {
    const answer = await fetch("/subscribe/check", {
      method: "POST",
      body: new URLSearchParams({ query: query.value }),
    });
    const text = await answer.text();
    if (mine !== newest || !answer.ok) return;
    const parsed = new DOMParser().parseFromString(text, "text/html");
    checked.replaceChildren(...parsed.body.childNodes);
    markPlaces();
  } catch {
    // Without an answer the last picture stays; saving says what is wrong.
  }
}

async function count() {
  counting = new AbortController();
  counted.textContent = "Counting the matches of the last 30 days …";
  try {
    const answer = await fetch("/subscribe/count", {
      method: "POST",
      body: new URLSearchParams({ query: query.value }),
      signal: counting.signal,
    });
    const parsed = new DOMParser().parseFromString(answer.ok ? await answer.text() : "", "text/html");
    counted.replaceChildren(...parsed.body.childNodes);
  } catch {
    counted.textContent = ""; // a further letter, or no answer
  }
}

query.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(check, PAUSE);
  counting.abort();
  clearTimeout(countTimer);
  counted.textContent = "";
  if (query.value.trim()) countTimer = setTimeout(count, COUNT_PAUSE);
});
form.addEventListener("submit", () => counting.abort());
if (query.value.trim()) countTimer = setTimeout(count, COUNT_PAUSE);

const excerpt = document.querySelector("#problem .excerpt");
if (excerpt) {
  markPlaces();
  go(view, Number(excerpt.dataset.line), Number(excerpt.dataset.column));
} else {
  document.getElementById("tried-title")?.focus();
  if (query.value.trim() && !checked.querySelector("svg, #problem")) check();
  else markPlaces();
}

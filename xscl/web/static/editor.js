// What is wrong with a query, or its join graph, while it is written; the cursor goes to the place
// of an error that the service has found.

const PAUSE = 350;

const form = document.getElementById("editor");
const query = document.getElementById("query");
const checked = document.getElementById("checked");

let timer = 0;
let newest = 0;

function offset(text, line, column) {
  const lines = text.split("\n").slice(0, line - 1);
  return lines.reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
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
    const wrong = checked.querySelector("#problem") !== null;
    query.toggleAttribute("aria-invalid", wrong);
    if (wrong) query.setAttribute("aria-invalid", "true");
  } catch {
    // Without an answer the last picture stays; saving says what is wrong.
  }
}

query.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(check, PAUSE);
});

query.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    form.querySelector('button[value="try"]').click();
  }
});

const excerpt = document.querySelector("#problem .excerpt");
if (excerpt) {
  const place = offset(query.value, Number(excerpt.dataset.line), Number(excerpt.dataset.column));
  query.focus();
  query.setSelectionRange(place, place);
} else {
  document.getElementById("tried-title")?.focus();
  if (query.value.trim() && !checked.querySelector("svg, #problem")) check();
}

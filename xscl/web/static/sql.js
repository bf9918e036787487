// Ctrl+Enter runs the query; the answer gets the focus; the last statements stay in this browser.

const KEPT = 30;
const KEY = "xscl-statements";
const form = document.getElementById("ask");
const answer = document.getElementById("answer-title");

form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});

function statements() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return []; // the browser keeps nothing for this site
  }
}

function note(statement) {
  const kept = [statement, ...statements().filter((one) => one !== statement)].slice(0, KEPT);
  try {
    localStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    return; // it is full, or nothing may be kept
  }
}

if (answer) note(form.elements.sql.value);
const history = document.getElementById("history");
const kept = statements();
history.hidden = kept.length === 0;
history.querySelector("ul").replaceChildren(
  ...kept.map((statement) => {
    const link = document.createElement("a");
    link.href = `/witnesses?${new URLSearchParams({ sql: statement })}`;
    link.className = "one-line";
    link.textContent = statement;
    const item = document.createElement("li");
    item.append(link);
    return item;
  }),
);
answer?.focus();

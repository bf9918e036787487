// Ctrl+Enter runs the query; the answer gets the focus; the last statements stay in this browser.

const KEPT = 30;
const KEY = "xscl-statements";
const form = document.getElementById("ask");
const answer = document.getElementById("answer-title");

form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  if (event.ctrlKey || event.metaKey) form.requestSubmit();
  if (event.target.id !== "name") return;
  event.preventDefault(); // the first button of the form would run the statement
  form.requestSubmit(form.querySelector("[formaction]"));
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
const kept = statements().map((statement) => {
  const link = document.createElement("a");
  link.href = `/witnesses?${new URLSearchParams({ sql: statement })}`;
  link.className = "one-line";
  link.textContent = statement;
  const item = document.createElement("li");
  item.append(link);
  return item;
});
if (kept.length) document.querySelector("#history ul").replaceChildren(...kept);
answer?.focus();

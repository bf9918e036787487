// Reading a list by keyboard, and marks of what was read, which the service keeps.

const list = document.querySelector("[data-reading]");
const bar = document.getElementById("reading");
const help = document.getElementById("keys");
const hide = document.getElementById("hide-read");
const words = document.getElementById("reading-words");

const rows = () => [...list.querySelectorAll("[data-key]")];
const isRead = (row) => row.classList.contains("is-read");

function show() {
  let unread = 0;
  for (const row of rows()) {
    row.hidden = isRead(row) && hide.checked && row !== document.activeElement;
    if (!isRead(row)) unread += 1;
  }
  const all = rows().length ? "All of this page is read" : "";
  words.textContent = unread ? `${unread} unread on this page` : all;
}

async function mark(marked, is = true) {
  for (const row of marked) row.classList.toggle("is-read", is);
  show();
  const body = new URLSearchParams(marked.map((row) => ["item", row.dataset.key]));
  body.append("read", is);
  try {
    const answer = await fetch("/read", { method: "POST", body, keepalive: true });
    if (!answer.ok) throw new Error(answer.statusText);
  } catch {
    words.textContent = "The service has not kept the mark";
  }
}

function step(by) {
  const shown = rows().filter((row) => !row.hidden);
  const at = shown.indexOf(document.activeElement.closest("[data-key]"));
  const next = shown[at < 0 ? (by > 0 ? 0 : shown.length - 1) : at + by];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  o: (row) => {
    if (!row) return;
    mark([row]);
    row.querySelector("[data-open]").click();
  },
  m: (row) => row && mark([row], !isRead(row)),
  s: (row) => row?.querySelector("form.star button")?.click(),
  "/": () => {
    const search = document.querySelector("[data-search]");
    search?.closest("details")?.setAttribute("open", "");
    search?.focus();
  },
  "?": () => help.showModal(),
};

if (list) {
  bar.classList.add("reading-on"); // its place is kept, with the same words, so that nothing moves
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest("input:not([type='checkbox']), select, textarea, [contenteditable]")) return;
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act(document.activeElement.closest("[data-key]"));
  });
  list.addEventListener("click", (event) => {
    const row = event.target.closest("[data-open]")?.closest("[data-key]");
    if (row && !isRead(row)) mark([row]);
  });
  hide.addEventListener("change", show);
  document.getElementById("mark-all").addEventListener("click", () => {
    const unread = rows().filter((row) => !isRead(row));
    if (unread.length) mark(unread);
  });
  document.getElementById("show-keys").addEventListener("click", () => help.showModal());
  new MutationObserver(show).observe(list, { childList: true });
  show();
}

// Reading a list by keyboard, and marks of what was read, which this browser keeps.

const KEPT = 5000; // marks, the newest
const STORE = "xscl.read";

const list = document.querySelector("[data-reading]");
const bar = document.getElementById("reading");
const help = document.getElementById("keys");
const hide = document.getElementById("hide-read");
const words = document.getElementById("reading-words");

function load() {
  try {
    return new Set(JSON.parse(localStorage.getItem(STORE) ?? "[]"));
  } catch {
    return new Set(); // nothing is stored where the browser allows no storage
  }
}

const read = load();

function save() {
  try {
    localStorage.setItem(STORE, JSON.stringify([...read].slice(-KEPT)));
  } catch {
    words.textContent = "This browser keeps no marks.";
  }
}

const rows = () => [...list.querySelectorAll("[data-key]")];

function show() {
  let unread = 0;
  for (const row of rows()) {
    const is = read.has(row.dataset.key);
    row.classList.toggle("is-read", is);
    row.hidden = is && hide.checked && row !== document.activeElement;
    if (!is) unread += 1;
  }
  const all = rows().length ? "All of this page is read" : "";
  words.textContent = unread ? `${unread} unread on this page` : all;
}

function mark(row, is = true) {
  read.delete(row.dataset.key);
  if (is) read.add(row.dataset.key);
  save();
  show();
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
    mark(row);
    row.querySelector("[data-open]").click();
  },
  m: (row) => row && mark(row, !read.has(row.dataset.key)),
  s: (row) => row?.querySelector("form.star button")?.click(),
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => help.showModal(),
};

if (list) {
  bar.classList.add("reading-on"); // its place is kept, so that nothing moves
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
    if (row) mark(row);
  });
  hide.addEventListener("change", show);
  document.getElementById("mark-all").addEventListener("click", () => {
    for (const row of rows()) read.add(row.dataset.key);
    save();
    show();
  });
  document.getElementById("show-keys").addEventListener("click", () => help.showModal());
  new MutationObserver(show).observe(list, { childList: true });
  show();
}

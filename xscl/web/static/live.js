// Matches as they come: counted in a bar of fixed height, and put above the others when the
// reader says so.  Nothing that is on the page moves by itself.

const MOST = 100; // matches on the page while new ones are shown at once
const LONGEST = 40; // characters of a title in the bar
const PAUSE = 3000; // between two looks where the service sends no events

const bar = document.getElementById("live");
const words = document.getElementById("live-words");
const show = document.getElementById("live-show");
const follow = document.getElementById("live-follow");
const list = document.getElementById("matches");

let after = bar.dataset.after;
let waiting = []; // matches that came and are not shown yet, the newest first
let asking = false;
let again = false;

// Return what is seen of a title, without the words of its marks for screen readers; the bar has a
// fixed height and shows it whole.
function seen(title) {
  const copy = title.cloneNode(true);
  for (const each of copy.querySelectorAll(".hidden, .j-number")) each.remove();
  const flat = copy.textContent.replace(/\s+/g, " ").trim();
  return flat.length <= LONGEST ? flat : `${flat.slice(0, LONGEST - 1).trimEnd()}…`;
}

function say() {
  const count = waiting.length;
  show.hidden = count === 0;
  if (count === 0) {
    words.textContent = "Waiting for new matches";
  } else {
    const newest = waiting[0];
    const name = newest.querySelector("h2").innerText.trim();
    const title = [...newest.querySelectorAll(".item-title")].at(-1);
    words.textContent = `${count} new: ${name}${title ? ` — ${seen(title)}` : ""}`;
  }
}

// Drop the cards of stories that have grown since, among those that are shown or wait.
function without(cards, later) {
  const grown = new Set(later.map((each) => each.dataset.story).filter(Boolean));
  return cards.filter((each) => !grown.has(each.dataset.story));
}

function reveal() {
  document.getElementById("none")?.remove();
  list.replaceChildren(...without([...list.children], waiting));
  list.prepend(...waiting);
  waiting = [];
  while (list.children.length > MOST) list.lastElementChild.remove();
  say();
}

async function look() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    do {
      again = false;
      const query = new URLSearchParams({ after, subscription: bar.dataset.subscription });
      const answer = await fetch(`/matches/news?${query}`);
      if (!answer.ok) break;
      const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = [...parsed.querySelectorAll("article.match")].map((each) => document.adoptNode(each));
      after = answer.headers.get("X-After") ?? after;
      if (found.length > 0) {
        waiting = [...found, ...without(waiting, found)].slice(0, MOST);
        if (follow.checked || document.getElementById("none")) reveal();
        else say();
      }
      again ||= answer.headers.get("X-More") === "yes";
    } while (again);
  } catch {
    words.textContent = "The service does not answer; trying again";
  } finally {
    asking = false;
  }
}

function listen() {
  const source = new EventSource("/v1/events");
  const on = (state) => bar.classList.toggle("live-on", state);
  source.onopen = () => {
    on(true);
    look();
  };
  source.onmessage = look;
  source.addEventListener("match", look);
  source.onerror = () => {
    on(false);
    if (source.readyState === EventSource.CLOSED) {
      look();
      setInterval(look, PAUSE);
    }
  };
}

if (!bar.hidden) {
  show.addEventListener("click", () => {
    reveal();
    list.firstElementChild?.scrollIntoView({ block: "nearest" });
  });
  follow.closest("label").hidden = false;
  follow.addEventListener("change", () => follow.checked && reveal());
  say();
  listen();
}

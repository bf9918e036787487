// Relative times stay right while a page is open; the absolute time is their title.

const SPANS = [["s", 1, 60], ["min", 60, 3600], ["h", 3600, 172800], ["days", 86400, 604800]];

function words(seconds) {
  const length = Math.abs(seconds);
  const span = SPANS.find(([, , below]) => length < below);
  if (!span) return null;
  if (span[1] === 1) return "now";
  const told = `${Math.floor(length / span[1])} ${span[0]}`;
  return seconds > 0 ? `${told} ago` : `in ${told}`;
}

setInterval(() => {
  for (const each of document.querySelectorAll("time[title]")) {
    const passed = Math.floor((Date.now() - Date.parse(each.dateTime)) / 1000);
    each.textContent = words(passed) ?? each.title;
  }
}, 30_000);

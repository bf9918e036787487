// Times in the zone of the reader: those of the last week relative, the absolute ones on hover.

const SPANS = [["s", 1, 60], ["min", 60, 3600], ["h", 3600, 172800], ["days", 86400, 604800]];
const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const WRITTEN = /(\d\d \w{3} \d{4}, )?\d\d:\d\d UTC/; // as the service writes a time in a picture

function words(seconds) {
  const length = Math.abs(seconds);
  const span = SPANS.find(([, , below]) => length < below);
  if (!span) return null;
  if (span[1] === 1) return "now";
  const told = `${Math.floor(length / span[1])} ${span[0]}`;
  return seconds > 0 ? `${told} ago` : `in ${told}`;
}

function show() {
  for (const each of document.querySelectorAll("time[title]")) {
    const time = Date.parse(each.dateTime);
    if (Number.isNaN(time)) continue; // beyond the calendar
    const passed = Math.floor((Date.now() - time) / 1000);
    each.title = LOCAL.format(time);
    const text = words(passed) ?? each.title;
    if (each.textContent !== text) each.textContent = text;
  }
  for (const each of document.querySelectorAll("[data-at]")) {
    const local = (_, day) => (day ? LOCAL : CLOCK).format(Date.parse(each.dataset.at));
    if (WRITTEN.test(each.textContent)) each.textContent = each.textContent.replace(WRITTEN, local);
  }
}

// A day in a form is one of the reader's.
for (const each of document.querySelectorAll("[name='zone']")) {
  each.value = LOCAL.resolvedOptions().timeZone;
  each.form.addEventListener("submit", () => (each.disabled = !each.form.elements.day.value));
  document.getElementById("utc").remove();
}
show();
setInterval(show, 30_000);
new MutationObserver(show).observe(document.body, { childList: true, subtree: true });

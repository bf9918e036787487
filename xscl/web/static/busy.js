// A form that takes time says so: its button is marked, and a text for screen readers.

const SOON = 400;

document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (!button) return;
  setTimeout(() => {
    if (event.defaultPrevented) return; // a script has sent it
    button.setAttribute("aria-busy", "true");
    document.getElementById("busy").textContent = "Working";
  }, SOON);
});

// The page may come back as it was left.
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
  document.getElementById("busy").textContent = "";
});

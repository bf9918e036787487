// Stars of matches change in place; without this script their form leads back to the page.

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form.star");
  if (!form) return;
  event.preventDefault();
  const button = form.querySelector("button");
  const remove = button.value === "true";
  const body = new URLSearchParams(new FormData(form));
  body.set("remove", remove);
  try {
    const answer = await fetch(form.action, { method: "POST", body, redirect: "manual" });
    if (answer.type !== "opaqueredirect") throw new Error(answer.statusText);
  } catch {
    form.submit(); // the service says what is wrong
    return;
  }
  button.value = String(!remove);
  button.setAttribute("aria-pressed", String(!remove));
  button.firstElementChild.textContent = remove ? "☆" : "★";
});

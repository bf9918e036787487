// The menu of further views closes when one looks elsewhere, or by Escape.

const more = document.querySelector(".more");

document.addEventListener("click", (event) => {
  if (more && !more.contains(event.target)) more.open = false;
});
more?.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !more.open) return;
  more.open = false;
  more.querySelector("summary").focus();
});

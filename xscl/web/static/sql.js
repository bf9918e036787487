// Ctrl+Enter runs the query; the answer gets the focus.

const form = document.getElementById("ask");

form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});

document.getElementById("answer-title")?.focus();

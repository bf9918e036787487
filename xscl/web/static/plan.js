// The picture of the plan grows, shrinks and is drawn along; without this script it is scrolled.

const STEP = 1.25;
const LEAST = 0.1;
const MOST = 4;
const SLACK = 5; // pixels

const bar = document.getElementById("zoom");
const frame = document.querySelector(".plan .scroll");
const picture = frame?.querySelector("svg");

if (picture) {
  const { width, height } = picture.viewBox.baseVal;
  let scale = 1;

  // Give the picture another size; the point under x, y (of the frame) stays where it is.
  const zoom = (wanted, x = frame.clientWidth / 2, y = frame.clientHeight / 2) => {
    const next = Math.min(MOST, Math.max(LEAST, wanted));
    const left = ((frame.scrollLeft + x) * next) / scale - x;
    const top = ((frame.scrollTop + y) * next) / scale - y;
    scale = next;
    picture.setAttribute("width", width * scale);
    picture.setAttribute("height", height * scale);
    frame.scrollTo(left, top);
    document.getElementById("zoom-now").textContent = `${Math.round(scale * 100)} %`;
  };

  const fit = () => zoom(Math.min(1, (frame.clientWidth - 24) / width, (frame.clientHeight - 24) / height));
  const acts = { in: () => zoom(scale * STEP), out: () => zoom(scale / STEP), all: fit, whole: () => zoom(1) };
  const keys = { "+": acts.in, "=": acts.in, "-": acts.out, 0: acts.whole, f: acts.all };

  bar.classList.add("reading-on"); // its place is kept, so that nothing moves
  for (const button of bar.querySelectorAll("button")) {
    button.addEventListener("click", acts[button.dataset.zoom]);
  }
  frame.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  frame.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // scrolls
      event.preventDefault();
      const box = frame.getBoundingClientRect();
      zoom(scale * STEP ** (-event.deltaY / 100), event.clientX - box.left, event.clientY - box.top);
    },
    { passive: false },
  );
  let held = null; // where the pointer went down: a node is a link, so what moves less is a click
  frame.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType !== "mouse") return; // a finger scrolls
    held = { x: event.clientX, y: event.clientY };
  });
  frame.addEventListener("pointermove", (event) => {
    if (!held) return;
    if (!frame.hasPointerCapture(event.pointerId)) {
      if (Math.hypot(event.clientX - held.x, event.clientY - held.y) < SLACK) return;
      frame.setPointerCapture(event.pointerId);
      frame.classList.add("is-drawn");
      frame.scrollBy(held.x - event.clientX, held.y - event.clientY);
      return;
    }
    frame.scrollBy(-event.movementX, -event.movementY);
  });
  frame.addEventListener("pointerup", () => (held = null));
  frame.addEventListener("dragstart", (event) => event.preventDefault()); // of a link
  frame.addEventListener("lostpointercapture", () => {
    held = null;
    frame.classList.remove("is-drawn");
  });
}

// The query editor: CodeMirror over a text area, which stays the field of the form.
// It is mounted in a shadow root, where its styles are constructed sheets, as the policy wants.

import {
  EditorState,
  EditorView,
  HighlightStyle,
  StreamLanguage,
  autocompletion,
  bracketMatching,
  completionKeymap,
  defaultKeymap,
  drawSelection,
  history,
  historyKeymap,
  keymap,
  setDiagnostics,
  syntaxHighlighting,
  tags,
} from "/static/codemirror.js";
import { completions } from "/static/query_completion.js";
import { ARITHMETIC_WORDS, KEYWORDS, PREDICATE_WORDS, SIDE_WORDS } from "/static/query_words.js";

const KEYWORD = new RegExp(
  `^(?:${[...KEYWORDS, ...PREDICATE_WORDS, ...ARITHMETIC_WORDS].join("|")})(?![\\w.'-])`,
  "i",
);
const SIDE = new RegExp(`^(?:${SIDE_WORDS.join("|")})(?![\\w.'-])`, "i");
const NAME = /^[A-Za-z_\u00c0-\uffff](?:[\w.'\u00b7\u00c0-\uffff]|-(?!>))*/;

const xscl = StreamLanguage.define({
  name: "xscl",
  startState: () => ({ within: [], before: "", markup: false }),
  copyState: (state) => ({ ...state, within: [...state.within] }),
  token(stream, state) {
    if (stream.eatSpace()) return null;
    const kind = token(stream, state);
    if (kind !== "comment") state.before = stream.current();
    return kind;
  },
  languageData: { commentTokens: { line: "--" }, closeBrackets: { brackets: ["[", "{", "(", "'", '"'] } },
});

function token(stream, state) {
  if (stream.match(/^--.*/)) return "comment";
  if (stream.match(/^(?:"[^"]*"?|'[^']*'?)/)) return "string";
  if (stream.match(/^(?:AT|ZONE)(?=\s+['"])/i)) return "keyword";
  if (stream.match(/^TO(?=\s+(?:-|\d|INF))/i)) return "keyword";
  if (/^else$/i.test(state.before) && stream.match(SIDE)) return "keyword";
  if (stream.match("->")) return "operator";
  if (stream.match(/^\$[012]?\.[\w-]+/)) return "variableName";
  if (stream.match(/^\d+(?:\.\d*)?(?:\s*(?:ms|min|s|h|d|w)\b)?/)) return "number";
  if (state.markup && stream.match(/^<\/?[A-Za-z_][\w.:-]*|^\/?>/)) return "tagName";
  const inner = state.within.findLast((each) => each !== "(");
  if (state.before !== "->" && !/^[/@]/.test(state.before) && stream.match(KEYWORD)) {
    if (/^select$/i.test(stream.current())) state.markup = true;
    if (/^from$/i.test(stream.current())) state.markup = false;
    return "keyword";
  }
  if (stream.match(NAME)) {
    if (state.before === "->" || /^as$/i.test(state.before)) return "variableName.definition";
    if (stream.match(/^\s*\(/, false)) return "variableName.function";
    if (inner === "{") return "variableName";
    if (inner === "[" || /[/@:]$/.test(state.before)) return "propertyName";
    return state.markup ? "attributeName" : "typeName";
  }
  const next = stream.next();
  if ("[{(".includes(next)) state.within.push(next);
  if ("]})".includes(next)) state.within.pop();
  if (next === "/") stream.eat("/");
  return "[]{}(),".includes(next) ? "bracket" : "operator";
}

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "700" },
  { tag: tags.typeName, color: "var(--j2-line)", fontWeight: "600" },
  { tag: tags.propertyName, color: "var(--ink)" },
  { tag: [tags.definition(tags.variableName), tags.variableName], color: "var(--j6-line)" },
  { tag: tags.function(tags.variableName), color: "var(--j5-line)" },
  { tag: tags.string, color: "var(--j4-line)" },
  { tag: tags.number, color: "var(--j3-line)" },
  { tag: [tags.tagName, tags.attributeName], color: "var(--j5-line)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
  { tag: [tags.operator, tags.bracket], color: "var(--soft)" },
]);

const look = EditorView.theme({
  "&": {
    border: "1px solid var(--firm)",
    borderRadius: "8px",
    backgroundColor: "var(--surface)",
    color: "var(--ink)",
  },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: "0.9375rem", lineHeight: "1.6" },
  ".cm-content": { minHeight: "calc(14.4em + 16px)", padding: "8px 6px", caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--j2)",
  },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--wash)", outline: "1px solid var(--accent)" },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    backgroundColor: "var(--bad-wash)",
    borderBottom: "2px solid var(--bad)",
  },
  ".cm-lintRange-warning": { backgroundImage: "none", borderBottom: "2px dotted var(--j3-line)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--j3-line)" },
  ".cm-lintPoint-error::after": { borderBottomColor: "var(--bad)" },
  ".cm-tooltip": {
    border: "1px solid var(--firm)",
    borderRadius: "8px",
    backgroundColor: "var(--surface)",
    color: "var(--ink)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em", maxWidth: "min(44em, 90vw)", borderRadius: "7px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { marginLeft: "1em", fontStyle: "normal", color: "var(--soft)" },
  "li[aria-selected] .cm-completionDetail": { color: "var(--on-accent)" },
  ".cm-tooltip.cm-completionInfo": { padding: "8px 10px", maxWidth: "24em", overflowWrap: "anywhere" },
  ".cm-completionInfo.cm-completionInfo-left-narrow, .cm-completionInfo.cm-completionInfo-right-narrow": { display: "none" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
});

// Put an editor in the place of a text area; `submit` is called for Ctrl+Enter.
export function over(area, label, submit) {
  const host = document.createElement("div");
  host.id = `${area.id}-editor`;
  area.after(host);
  const root = host.attachShadow({ mode: "open" });
  const view = new EditorView({
    doc: area.value,
    parent: root,
    root,
    extensions: [
      keymap.of([{ key: "Mod-Enter", run: () => (submit(), true) }]),
      keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
      history(),
      drawSelection(),
      bracketMatching(),
      xscl,
      syntaxHighlighting(colours),
      autocompletion({ override: [completions], icons: false }),
      EditorState.tabSize.of(2),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "off" }),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        area.value = view.state.doc.toString();
        area.dispatchEvent(new Event("input"));
      }),
      look,
    ],
  });
  area.hidden = true;
  area.required = false; // a hidden field cannot show that it is empty: the service says so
  document.querySelector(`label[for="${area.id}"]`)?.addEventListener("click", () => view.focus());
  return view;
}

// Return the offset of a line and a column, both from 1.
function offset(view, line, column) {
  const found = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
  return Math.min(found.from + Math.max(column, 1) - 1, found.to);
}

// Mark places in the text: each has a line, a column, a message and a severity.
export function mark(view, places) {
  const diagnostics = places.map(({ line, column, message, severity }) => {
    const from = offset(view, line, column);
    const word = /^[\w.'-]+/.exec(view.state.sliceDoc(from, from + 200));
    return { from, to: from + (word?.[0].length ?? 0), severity, message };
  });
  view.dispatch(setDiagnostics(view.state, diagnostics));
  const wrong = places.some(({ severity }) => severity === "error");
  if (wrong) view.contentDOM.setAttribute("aria-invalid", "true");
  else view.contentDOM.removeAttribute("aria-invalid");
}

// Put the cursor on a line and a column.
export function go(view, line, column) {
  view.focus();
  view.dispatch({ selection: { anchor: offset(view, line, column) }, scrollIntoView: true });
}

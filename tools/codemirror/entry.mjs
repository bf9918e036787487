// What the web UI uses of CodeMirror, as the exports of one module.

export { autocompletion, completionKeymap, snippetCompletion, startCompletion } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { HighlightStyle, StreamLanguage, bracketMatching, syntaxHighlighting } from "@codemirror/language";
export { setDiagnostics } from "@codemirror/lint";
export { EditorState } from "@codemirror/state";
export { EditorView, drawSelection, keymap } from "@codemirror/view";
export { tags } from "@lezer/highlight";

// The editor of one selector: highlighting, and completion from the service's own metrics and labels.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useComputedColorScheme } from "@mantine/core";
import { newCompleteStrategy, PromQLExtension } from "@prometheus-io/codemirror-promql";
import { useEffect, useRef } from "react";
import { nonce } from "../../nonce";
import { catalogue } from "./catalogue";

interface Props {
  text: string;
  /** The service has refused the text that was run. */
  wrong: boolean;
  onChange: (text: string) => void;
  onRun: (text: string) => void;
}

// Only one selector is accepted: what else the language has is not offered.
const OTHERS = new Set(["function", "keyword", "snippet", "operator"]);

const COLOURS = {
  light: { name: "#0b7285", label: "#5f3dc4", string: "#2b6a2f", wrong: "#c92a2a" },
  dark: { name: "#66d9e8", label: "#b197fc", string: "#8ce99a", wrong: "#ffa8a8" },
};

function styleOf(scheme: "light" | "dark") {
  const { name, label, string, wrong } = COLOURS[scheme];
  return [
    syntaxHighlighting(
      HighlightStyle.define([
        { tag: tags.name, color: name },
        { tag: tags.labelName, color: label },
        { tag: tags.string, color: string },
        { tag: tags.invalid, color: wrong },
      ]),
    ),
    EditorView.theme(
      {
        "&": { fontSize: "14px", backgroundColor: "var(--mantine-color-body)" },
        "&.cm-focused": { outline: "2px solid var(--bar)", outlineOffset: "-1px" },
        ".cm-content": { fontFamily: "var(--mantine-font-family-monospace)", padding: "9px 4px" },
        ".cm-placeholder": { color: "var(--mantine-color-dimmed)" },
        ".cm-tooltip": {
          backgroundColor: "var(--mantine-color-body)",
          color: "var(--mantine-color-text)",
          border: "1px solid var(--line)",
        },
        ".cm-tooltip-autocomplete ul li[aria-selected]": {
          backgroundColor: "var(--mantine-color-cyan-9)",
          color: "#fff",
        },
      },
      { dark: scheme === "dark" },
    ),
  ];
}

function completion() {
  const all = newCompleteStrategy({ remote: catalogue });
  return new PromQLExtension().activateLinter(false).setComplete({
    completeStrategy: {
      promQL: async (context) => {
        const found = await all.promQL(context);
        return found && { ...found, options: found.options.filter(({ type }) => !OTHERS.has(type ?? "")) };
      },
    },
  });
}

// Typing over coloured text, the browser would keep the colour as inline style, which the policy refuses.
const typeOver = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const { from, to, empty } = view.state.selection.main;
    const text = event.data;
    if (event.inputType !== "insertText" || !text || empty || view.composing) return false;
    event.preventDefault();
    const insert = () =>
      view.state.update({
        changes: { from, to, insert: text },
        selection: { anchor: from + text.length },
        userEvent: "input.type",
      });
    const taken = view.state.facet(EditorView.inputHandler).some((handler) => handler(view, from, to, text, insert));
    if (!taken) view.dispatch(insert());
    return true;
  },
});

export function Editor({ text, wrong, onChange, onRun }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const scheme = useComputedColorScheme("light");
  const tell = useRef({ onChange, onRun });
  tell.current = { onChange, onRun };
  const first = useRef(text);

  useEffect(() => {
    const made = new EditorView({
      parent: place.current!,
      state: EditorState.create({
        doc: first.current,
        extensions: [
          Prec.highest(
            keymap.of([{ key: "Enter", run: ({ state }) => (tell.current.onRun(state.doc.toString()), true) }]),
          ),
          history(),
          closeBrackets(),
          autocompletion(),
          keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap]),
          Prec.highest(keymap.of(completionKeymap)),
          typeOver,
          EditorView.lineWrapping,
          EditorView.cspNonce.of(nonce),
          EditorView.contentAttributes.of({ "aria-label": "Selector", "data-search": "" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) tell.current.onChange((first.current = update.state.doc.toString()));
          }),
          placeholder('container_cpu_usage_percent{agent="host-1"}'),
          completion().asExtension(),
          styleOf(scheme),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, [scheme]);

  // A link or a step back in the history brings another text.
  useEffect(() => {
    const state = view.current!.state;
    if (state.doc.toString() !== text)
      view.current!.dispatch({ changes: { from: 0, to: state.doc.length, insert: text } });
  }, [text]);

  return <div ref={place} className={wrong ? "editor wrong" : "editor"} />;
}

"use strict";
// The texts of a sentence, above its pictures.

// `own`: [{run, sentence}] of the runs that have the sentence; `several` names the runs.
function drawTexts(sentence, own, several) {
  const texts = [];
  const add = (name, text, kind = "") => {
    texts.push(htmlElement("span", { class: "name" }, name), htmlElement("span", { dir: "auto", class: kind }, text));
  };
  add("source", sentence.sourceText);
  if (sentence.reference !== null) add("reference", sentence.reference);
  for (const { run, sentence } of own) {
    const named = (what) => (several ? `${what}, ${run.name}` : what);
    add(named(sentence.mode === "forced" ? "forced" : "translation"), sentence.hypothesis);
    if (sentence.plain !== null && sentence.plain !== sentence.hypothesis) add(named("plain text"), sentence.plain);
    if (sentence.truncated) add("", "cut short at the longest length allowed", "warning");
    if (sentence.underAttended) add("hardly attended to", sentence.underAttended, "warning");
  }
  return texts;
}

"use strict";
// The texts of a sentence, above its pictures, with its words marked.

// The marks in the target's texts: words of translation and reference that differ, words said again.
function targetMarks(sentence, unit) {
  const translation = wordRanges(sentence.hypothesis, unit), reference = wordRanges(sentence.reference ?? "", unit);
  if (!translation) return { translation: [], reference: [] };
  const words = (ranges) => ranges.map(({ word }) => word);
  const pick = (ranges, places, kind) => [...places].map((place) => ({ ...ranges[place], kind }));
  const again = pick(translation, repetitions(words(translation)), "repeated");
  if (sentence.reference === null) return { translation: again, reference: [] };
  const [added, missing] = differences(words(translation), words(reference));
  return { translation: [...pick(translation, added, "differs"), ...again], reference: pick(reference, missing, "differs") };
}

// The words of the source that got hardly any attention in one of the runs.
function droppedWords(own) {
  return own.flatMap(({ run, sentence }) => {
    const ranges = wordRanges(sentence.sourceText, run.units.source) ?? [];
    return (sentence.underAttendedWords ?? []).map((word) => ranges[word]).filter(Boolean).map((range) => ({ ...range, kind: "dropped" }));
  });
}

// `own`: [{run, sentence}] of the runs that are shown and have the sentence; `several` names the runs.
function drawTexts(sentence, own, several, query) {
  const texts = [], kinds = new Set();
  const add = (name, text, ranges = [], kind = null) => {
    for (const range of ranges) kinds.add(range.kind);
    const marked = markText(htmlElement("span", { dir: "auto", class: kind }), text, [...ranges, ...hitRanges(text, query)]);
    texts.push(htmlElement("span", { class: "name" }, name), marked);
  };
  const marks = own.map((one) => targetMarks(one.sentence, one.run.units.target));
  add("source", sentence.sourceText, droppedWords(own));
  if (sentence.reference !== null) add("reference", sentence.reference, own.length === 1 ? marks[0].reference : []);
  own.forEach(({ run, sentence }, i) => {
    const named = (what) => (several ? `${what}, ${run.name}` : what);
    add(named(sentence.mode === "forced" ? "forced" : "translation"), sentence.hypothesis, marks[i].translation);
    if (sentence.plain !== null && sentence.plain !== sentence.hypothesis) add(named("plain text"), sentence.plain);
    if (sentence.truncated) add("", "cut short at the longest length allowed", [], "warning");
    if (sentence.underAttended && (several || run.units.source === "subwords")) add("hardly attended to", sentence.underAttended, [], "warning");
  });
  return [...texts, ...drawKey(kinds)];
}

// Says what the marks in the texts mean, where there are any.
function drawKey(kinds) {
  const labels = { differs: "differs from the other text", dropped: "hardly attended to", repeated: "repeated" };
  const shown = Object.keys(labels).filter((kind) => kinds.has(kind));
  if (!shown.length) return [];
  const key = htmlElement("span", { class: "key" });
  for (const kind of shown) key.append(htmlElement("span", { class: kind }, labels[kind]));
  return [htmlElement("span", { class: "name" }), key];
}

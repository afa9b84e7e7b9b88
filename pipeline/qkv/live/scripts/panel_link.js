"use strict";
// Addresses that hold a sentence and what was changed in it.

const LINK_START = "#live=";

function linkTo({ text, beam, edits }) {
  const said = { text, beam, edits: edits.map(({ heads, prefix, prefixText }) => ({ heads, prefix, prefixText })) };
  return `${location.href.split("#")[0]}${LINK_START}${encodeURIComponent(JSON.stringify(said))}`;
}

// Reads what a link asks for: {text, beam, edits}, or null. Whoever wrote the link, all of it is data.
function readLink(fragment, backend) {
  if (!fragment.startsWith(LINK_START)) return null;
  try {
    const { text, beam, edits } = JSON.parse(decodeURIComponent(fragment.slice(LINK_START.length)));
    const read = edits.slice(0, backend.runs.length).map(({ heads, prefix, prefixText }) => new Edits([...heads], [...prefix], String(prefixText)));
    return { text: String(text), beam: backend.beams.includes(beam) ? beam : backend.beams[0], edits: read };
  } catch {
    return null;
  }
}

"use strict";
// Starts the panel: a page defines `makeBackend(facts)` before this script, and holds its facts in the element #live.

async function startPanel() {
  const fragment = location.hash; // before the viewer writes its own
  const root = document.getElementById("extension");
  const backend = await makeBackend(JSON.parse(document.getElementById("live").textContent));
  await viewer.ready;
  document.getElementById("notice")?.remove();
  const panel = new Panel(viewer, backend, root), asked = readLink(fragment, backend);
  globalThis.livePanel = panel; // for the console
  new Tour(panel, panel.find("tour"), panel.find("start-tour"));
  if (asked) await panel.ask(asked.text, asked);
  else if (backend.examples.length) await panel.ask(backend.examples[0]);
  panel.find("text").focus();
  root.dataset.ready = "true";
}

// A page that cannot answer says so, in the place of its form.
startPanel().catch(({ message }) => {
  document.getElementById("extension").replaceChildren(htmlElement("p", { class: "warning", role: "alert" }, `This page cannot translate: ${message}.`));
});

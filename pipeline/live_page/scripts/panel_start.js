"use strict";
// Starts the panel: a page defines `makeBackend(facts)` before this script, and holds its facts in the element #live.

async function startPanel() {
  const fragment = location.hash; // before the viewer writes its own
  const backend = await makeBackend(JSON.parse(document.getElementById("live").textContent));
  await viewer.ready;
  const root = document.getElementById("extension"), panel = new Panel(viewer, backend, root);
  new Tour(panel, panel.find("tour"), panel.find("start-tour"));
  const asked = readLink(fragment, backend);
  if (asked) await panel.ask(asked.text, asked);
  panel.find("text").focus();
  root.dataset.ready = "true";
}

startPanel().catch(({ message }) => {
  document.querySelector("#extension [data-part=status]").textContent = `This page cannot answer: ${message}`;
});

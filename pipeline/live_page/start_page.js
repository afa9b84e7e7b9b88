"use strict";
// Opens the model that the page holds, and translates the first example.

async function startPage() {
  const notice = document.getElementById("notice");
  let model;
  try {
    model = await unpack(document.getElementById("model").textContent);
    await viewer.ready;
  } catch (error) {
    notice.textContent = `This page is damaged, and translates nothing: the model inside is not the one it was written with (${error.message}). Get the file again.`;
    notice.className = "warning";
    return;
  }
  const { examples } = model.header;
  const panel = new LivePanel(viewer, new PageBackend(model), { examples, sites: Object.keys(SITE_NAMES) });
  window.livePanel = panel;
  if (examples.length) {
    panel.input.value = examples[0];
    await panel.translate(examples[0]);
  }
  document.documentElement.dataset.live = "ready";
}

startPage();

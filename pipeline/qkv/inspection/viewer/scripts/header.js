"use strict";
// The header: what the page is about, and the link to what is shown.

// Fills the title and the facts of the run; where there are several, each stands over its own pictures.
function fillHeader(header, data) {
  document.title = data.title;
  header.querySelector("h1").textContent = data.title;
  const [run] = data.runs, facts = data.runs.length === 1 || data.stages ? [...(run?.facts ?? [])] : [];
  const count = run?.sentences.length ?? 0;
  if (run?.sentencesInSet > count) facts.push(`first ${count.toLocaleString("en")} of ${run.sentencesInSet.toLocaleString("en")} sentences`);
  header.querySelector("#facts").textContent = facts.join(" · ");
}

// The button copies the link; where the browser does not let it, the link is shown to be copied by hand.
function listenToCopy(button, status) {
  button.addEventListener("click", async () => {
    const copied = await copyLink();
    status.textContent = copied ? "Copied" : location.href;
    if (copied) setTimeout(() => { status.textContent = ""; }, 2000);
  });
}

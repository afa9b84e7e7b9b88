"use strict";
/* Outputs of lessons without columns are sentences, which may wrap. */
for (const output of document.querySelectorAll(".cell_output .stream pre"))
  output.classList.toggle("sentences", !/\S {2,}\S|^\s*\[/m.test(output.textContent));

/* What the theme lacks for those who read by keyboard or by ear. */
for (const region of document.querySelectorAll("pre, .table-wrapper"))
  if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "This page");

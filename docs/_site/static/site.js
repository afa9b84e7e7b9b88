"use strict";
/* What the theme lacks for those who read by keyboard or by ear. */
for (const region of document.querySelectorAll("pre, .table-wrapper"))
  if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "This page");

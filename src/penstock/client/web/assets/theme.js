// Before anything is drawn: a page that is dark would flash in the light otherwise.
"use strict";
try {
  const theme = localStorage.getItem("penstock-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* a browser that keeps nothing: as the system has it */ }

// Renders $...$ and $$...$$ with the KaTeX that is shipped with the site; runs again after instant navigation.
const renderEquations = () =>
  renderMathInElement(document.body, {
    delimiters: [
      { left: "$$", right: "$$", display: true },
      { left: "\\(", right: "\\)", display: false },
      { left: "\\[", right: "\\]", display: true },
    ],
    throwOnError: true,
  });
if (typeof document$ !== "undefined") document$.subscribe(renderEquations);
else document.addEventListener("DOMContentLoaded", renderEquations);

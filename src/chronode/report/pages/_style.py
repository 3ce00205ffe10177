"""The style of pages, and the script that sorts tables."""

STYLE = """
:root{color-scheme:light}*{box-sizing:border-box}
body{margin:0;background:#f6f7f9;color:#111827;font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1060px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:26px;line-height:1.2;margin:8px 0 4px;overflow-wrap:anywhere}
h2{font-size:19px;margin:0 0 10px}h3{font-size:15px;margin:18px 0 6px}
p{margin:6px 0}p.lead{color:#4b5563;margin:0 0 14px}p.small,figcaption{color:#6b7280;font-size:13px}
nav{position:sticky;top:0;background:#f6f7f9ee;padding:8px 0;font-size:14px;z-index:1}
nav{display:flex;flex-wrap:wrap;gap:4px 16px}
a{color:#0a5f94;text-decoration:none}a:hover{text-decoration:underline}
section{background:#fff;border:1px solid #e5e7eb;border-radius:10px;padding:16px 18px;margin:14px 0}
section{scroll-margin-top:40px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:10px;margin:14px 0}
.card{background:#fff;border:1px solid #e5e7eb;border-radius:10px;padding:10px 14px}
.card b{display:block;font-size:22px;line-height:1.25;font-weight:650;overflow-wrap:anywhere}
.card small{font-size:13px;font-weight:400;color:#4b5563;margin-left:8px;white-space:nowrap}
.card span{color:#6b7280;font-size:13px}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));gap:18px 24px;align-items:start}
figure{margin:0;min-width:0}svg{display:block;width:100%;height:auto}figcaption{margin-top:2px}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:4px 12px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid #eef0f3}
th{color:#4b5563;font-weight:600;white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap}
tr.best td{font-weight:650}
table.sortable th{cursor:pointer}table.sortable th::after{content:" ↕";color:#c0c5cd;font-size:11px}
table.sortable th[aria-sort=ascending]::after{content:" ↑";color:#111827}
table.sortable th[aria-sort=descending]::after{content:" ↓";color:#111827}
.pill{display:inline-block;border-radius:99px;padding:1px 10px;font-size:13px;background:#e8f3ee;color:#05603a}
.pill.bad{background:#fdeceb;color:#9b1c12}.pill.off{background:#eef0f3;color:#374151}
pre{background:#f3f4f6;border-radius:8px;padding:10px 12px;overflow-x:auto;font-size:13px;margin:6px 0}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}details{margin:8px 0}
summary{cursor:pointer;color:#0a5f94}ul{margin:6px 0;padding-left:20px}footer{color:#6b7280;font-size:13px}
@media print{@page{margin:14mm}body,nav{background:#fff;font-size:12px}nav{display:none}main{max-width:none;padding:0}
section{border:0;border-top:1px solid #d1d5db;border-radius:0;padding:10px 0;margin:8px 0}
h2,h3{break-after:avoid}figure,tr,pre,.card{break-inside:avoid}.grid{grid-template-columns:1fr 1fr}
.cards{grid-template-columns:repeat(5,1fr)}pre{white-space:pre-wrap}.wide{overflow:visible}
table{font-size:11px}th,td{padding-right:8px}th,td.n,th.n{white-space:normal}}
"""

# A click on a heading sorts by that column: numbers by value, text by name; empty cells stay below.
SORT = """
for(const table of document.querySelectorAll("table.sortable"))table.querySelectorAll("th").forEach((head,column)=>{
 head.tabIndex=0;head.addEventListener("keydown",event=>{if(event.key==="Enter")head.click()});
 head.addEventListener("click",()=>{
  const up=head.getAttribute("aria-sort")!=="ascending",body=table.tBodies[0];
  const key=row=>{const cell=row.cells[column];return cell.dataset.v??cell.textContent.trim().toLowerCase()};
  const both=(a,b)=>{const x=key(a),y=key(b);if(x===""||y==="")return(x==="")-(y==="");
   const n=Number(x),m=Number(y),order=isNaN(n)||isNaN(m)?x.localeCompare(y):n-m;return up?order:-order};
  for(const other of table.querySelectorAll("th"))other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort",up?"ascending":"descending");
  [...body.rows].sort(both).forEach(row=>body.append(row))})});
"""

IN_NOTEBOOKS = """
.chronode table{border-collapse:collapse}.chronode td,.chronode th{padding:2px 10px 2px 0;text-align:left}
.chronode td.n,.chronode th.n{text-align:right}.chronode figure{margin:0}
.chronode .grid{display:flex;flex-wrap:wrap;gap:12px 24px}
.chronode svg{width:380px;max-width:100%;height:auto;background:#fff}
"""

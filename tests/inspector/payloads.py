"""What must never become markup, a script or a request, wherever a model or a client writes it."""

from __future__ import annotations

MARK = "wholecallxss"
_RUN = f"window.{MARK}=1"
_FETCH = f"//127.0.0.1:9/{MARK}"

PAYLOADS: tuple[str, ...] = (
    f"<script>{_RUN}</script>",
    f"<ScRiPt >{_RUN}</sCrIpT>",
    f"<script src={_FETCH}></script>",
    f"</script><script>{_RUN}</script>",
    f'"><script>{_RUN}</script>',
    f"<img src=x onerror={_RUN}>",
    f"<img src={_FETCH}>",
    f'"><img src=x onerror="{_RUN}">',
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f'<svg><a xlink:href="javascript:{_RUN}"><text>x</text></a></svg>',
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<body onload={_RUN}>",
    f'<iframe src="javascript:{_RUN}"></iframe>',
    f'<iframe srcdoc="<script>parent.{MARK}=1</script>"></iframe>',
    f"<object data={_FETCH}></object>",
    f"<embed src={_FETCH}>",
    f'<link rel=stylesheet href="{_FETCH}">',
    f"<style>@import '{_FETCH}';</style>",
    f'<div style="background:url({_FETCH})">x</div>',
    f'<a href="javascript:{_RUN}">x</a>',
    f"javascript:{_RUN}",
    f"data:text/html,<script>{_RUN}</script>",
    f"<details open ontoggle={_RUN}>",
    f"<input autofocus onfocus={_RUN}>",
    f"<video><source onerror={_RUN}></video>",
    f"<marquee onstart={_RUN}>",
    f'<math><mtext></p><style><img src=x onerror="{_RUN}"></style>',
    f'<noscript><p title="</noscript><img src=x onerror={_RUN}>">',
    f'<meta http-equiv=refresh content="0;url=javascript:{_RUN}">',
    f'<base href="{_FETCH}/">',
    f'<form action="{_FETCH}"><button autofocus>x</button></form>',
    f"{{{{constructor.constructor('{_RUN}')()}}}}",
    f"${{{_RUN}}}",
    f"'-{_RUN}-'",
    f"\u2028{_RUN}//",
    f"<!--><img src=x onerror={_RUN}>-->",
    f"]]><script>{_RUN}</script>",
    f"\x00<script>{_RUN}</script>",
    f"\n\ndata: <script>{_RUN}</script>\n\n",
    f"__proto__ <script>{_RUN}</script>",
)

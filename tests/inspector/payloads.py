"""What must never become markup, a script or a request, wherever a model or a client writes it.

Nearly all of them do their harm if they are written into a page as markup, which
tests/browser/test_hostile.py shows; the others are for templates, addresses, styles, JSON and
frames of streams.
"""

from __future__ import annotations

MARK = "wholecallxss"
RUN = f"window.{MARK}=1"
FETCH = f"//127.0.0.1:9/{MARK}"

_SCRIPTS = (
    f"<script>{RUN}</script>",
    f"<ScRiPt >{RUN}</sCrIpT>",
    f"<script src={FETCH}></script>",
    f"</script><script>{RUN}</script>",
    f'"><script>{RUN}</script>',
    f"'><script>{RUN}</script>",
    f"<script type=module>{RUN}</script>",
    f"<script\x0c>{RUN}</script>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><script href={FETCH} /></svg>",
    f"<math><script>{RUN}</script></math>",
    f"]]><script>{RUN}</script>",
    f"\x00<script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"</style><script>{RUN}</script>",
    f"<!--<script>-->{RUN}<!--</script>-->",
    f"__proto__ <script>{RUN}</script>",
    f"<script nonce=''>{RUN}</script>",
)
_IMAGES = (
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror="{RUN}">',
    f"'><img src=x onerror='{RUN}'>",
    f"<img src={FETCH}>",
    f"<img srcset='{FETCH} 1x'>",
    f"<img/src=x/onerror={RUN}>",
    f"<img src=x onerror\x0a=\x0a{RUN}>",
    f"<IMG SRC=x OnErRoR={RUN}>",
    f"<img src=`x` onerror={RUN}>",
    f"<image src=x onerror={RUN}>",
    f"<img src='data:,' onerror={RUN}>",
    f"<img src=x onerror=&#119;indow.{MARK}=1>",
    f"<!--><img src=x onerror={RUN}>-->",
    f'<math><mtext></p><style><img src=x onerror="{RUN}"></style>',
    f'<noscript><p title="</noscript><img src=x onerror={RUN}>">',
    f"<picture><source srcset={FETCH}><img src={FETCH}/2></picture>",
    f"<table background={FETCH}><tr><td>x</table>",
    f"<body background={FETCH}>",
    f"<input type=image src={FETCH}>",
    f"<video poster={FETCH}></video>",
    f"<svg><image href={FETCH} /></svg>",
    f"<svg><use href={FETCH}#x /></svg>",
    f"<svg><feImage href={FETCH} /></svg>",
)
_HANDLERS = (
    f"<svg onload={RUN}>",
    f"<svg/onload={RUN}>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<svg><set onbegin={RUN} attributeName=x to=1>",
    f"<body onload={RUN}>",
    f"<body onpageshow={RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<input autofocus onfocus={RUN}>",
    f"<textarea autofocus onfocus={RUN}>",
    f"<select autofocus onfocus={RUN}>",
    f"<button autofocus onfocus={RUN}>x</button>",
    f"<div tabindex=1 autofocus onfocus={RUN}>x</div>",
    f"<a href=# autofocus onfocus={RUN}>x</a>",
    f"<video><source onerror={RUN}></video>",
    f"<video src=x onerror={RUN}></video>",
    f"<audio src=x onerror={RUN}></audio>",
    f"<marquee onstart={RUN}>x</marquee>",
    f"<object data=x: onerror={RUN}></object>",
    f"<style onload={RUN}></style>",
    f"<link rel=stylesheet href=x onerror={RUN}>",
    f"<iframe onload={RUN}></iframe>",
    f"<div style='animation:x 1s' onanimationstart={RUN}>x</div><style>@keyframes x{{}}</style>",
    f"<xss contenteditable autofocus onfocus={RUN}>x</xss>",
    f"<div popover id=p onbeforetoggle={RUN}>x</div><button popovertarget=p autofocus>x</button>",
)
_ADDRESSES = (
    f'<iframe src="javascript:parent.{MARK}=1"></iframe>',
    f'<iframe srcdoc="<script>parent.{MARK}=1</script>"></iframe>',
    f"<iframe src={FETCH}></iframe>",
    f'<iframe src="data:text/html,<script>parent.{MARK}=1</script>"></iframe>',
    f"<object data={FETCH}></object>",
    f'<object data="javascript:{RUN}"></object>',
    f"<embed src={FETCH}>",
    f'<embed src="javascript:{RUN}">',
    f'<link rel=stylesheet href="{FETCH}">',
    f'<link rel=preload as=script href="{FETCH}">',
    f'<link rel=icon href="{FETCH}">',
    f"<style>@import '{FETCH}';</style>",
    f"<style>*{{background:url({FETCH})}}</style>",
    f'<div style="background:url({FETCH})">x</div>',
    f"<audio src={FETCH} autoplay></audio>",
    f"<video src={FETCH} autoplay></video>",
    f"<video><track default src={FETCH}></video>",
    f'<svg><a xlink:href="javascript:{RUN}"><text>x</text></a></svg>',
    f'<a href="javascript:{RUN}">x</a>',
    f'<a href="java\tscript:{RUN}">x</a>',
    f'<form action="javascript:{RUN}"><button autofocus>x</button></form>',
    f'<meta http-equiv=refresh content="0;url=javascript:{RUN}">',
    f'<base href="{FETCH}/">',
    f"javascript:{RUN}",
    f"data:text/html,<script>{RUN}</script>",
    f"#/runs/<script>{RUN}</script>",
)
_TEMPLATES = (
    f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"${{{RUN}}}",
    f"'-{RUN}-'",
    f'";{RUN};//',
    f"\u2028{RUN}//",
    f"\n\ndata: <script>{RUN}</script>\n\n",
    f"</pre><img src=x onerror={RUN}>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"%3Cscript%3E{RUN}%3C/script%3E",
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"\u202e<script>{RUN}</script>",
    f"＜script＞{RUN}＜/script＞",  # noqa: RUF001 - the full-width form is the point
)
PAYLOADS: tuple[str, ...] = (*_SCRIPTS, *_IMAGES, *_HANDLERS, *_ADDRESSES, *_TEMPLATES)

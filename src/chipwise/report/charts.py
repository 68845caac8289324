"""Pictures: tidy rows drawn with Altair, as SVG, PNG or one HTML file; nothing needs the network.

The only module that loads Altair and vl-convert (extra ``charts``), when a picture is asked for.
Scales, places and colours are chosen here; the numbers are those of the rows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from chipwise.errors import UsageError
from chipwise.i18n import _, choose_language
from chipwise.report import bars, points
from chipwise.report.palette import DARK, MODES, PART_UNKNOWN, VENDOR_UNKNOWN, VENDORS, vendor_name
from chipwise.report.placing import LogAxis
from chipwise.report.tidy import Row

if TYPE_CHECKING:
    import altair as alt

WIDTH = bars.WIDTH
_FONT = (
    "Arial, 'Liberation Sans', Helvetica, 'Noto Sans CJK SC', 'PingFang SC', "
    "'Microsoft YaHei', sans-serif"
)
_GREY, _PALE = "#5A5A5A", "#E4E4E4"
_PNG_SCALE = 2
Rows = Sequence[Row]


def require() -> None:
    """Make sure that pictures can be drawn.

    Raises:
        UsageError: Altair or vl-convert is not installed.
    """
    try:
        import altair
        import vl_convert
    except ImportError as error:
        text = _("pictures need {package}: pip install 'chipwise[charts]' (CSV needs nothing)")
        message = text.format(package=error.name or "altair")
        raise UsageError("charts-package-missing", message, package=error.name) from None
    del altair, vl_convert


def draw(tables: Mapping[str, Rows], subject: str, form: str) -> bytes:
    """The pictures below each other, as a file.

    Args:
        tables: rows of ``tidy`` by the picture's name; at least one.
        subject: what the pictures are about, for their subtitles.
        form: ``svg``, ``png`` or ``html``.

    Raises:
        UsageError: Altair or vl-convert is not installed.
    """
    require()
    import altair as alt

    pictures = [_PICTURES[name](rows, subject) for name, rows in tables.items()]
    described = " ".join(points.described(name, rows) for name, rows in tables.items())
    chart = (
        alt.vconcat(*pictures, spacing=36)
        .resolve_scale(color="independent", shape="independent", x="independent", y="independent")
        .properties(description=described, padding=16, background="white")
    )
    return _bytes_of(_styled(chart), described, form)


def _styled(chart: alt.VConcatChart) -> alt.VConcatChart:
    styled: alt.VConcatChart = (
        chart.configure(font=_FONT)
        .configure_view(stroke=None)
        .configure_title(
            anchor="start", fontSize=16, subtitleFontSize=12, subtitleColor=_GREY, offset=14,
            color=DARK, subtitlePadding=6, frame="group",
        )
        .configure_axis(
            labelFontSize=11, titleFontSize=12, titleFontWeight="normal", gridColor=_PALE,
            domainColor=_GREY, tickColor=_GREY, labelColor=DARK, titleColor=DARK, titlePadding=8,
        )
        .configure_legend(labelFontSize=12, labelLimit=240, symbolSize=110, title=None)
    )  # fmt: skip
    return styled


# -- files -----------------------------------------------------------------------------------


def _bytes_of(chart: alt.VConcatChart, described: str, form: str) -> bytes:
    if form == "html":
        return _page(chart, described).encode()
    if form == "svg":
        return _svg(chart, described).encode()
    file = io.BytesIO()
    chart.save(file, format="png", scale_factor=_PNG_SCALE)
    return file.getvalue()


def _svg(chart: alt.VConcatChart, described: str) -> str:
    """The drawing, with its description as the name that screen readers say."""
    file = io.StringIO()
    chart.save(file, format="svg")
    label = f'<svg role="graphics-document" aria-label="{escape(described)}" '
    return file.getvalue().replace("<svg ", label, 1) + "\n"


def _page(chart: alt.VConcatChart, described: str) -> str:
    """One file with its own script; without JavaScript it shows the still picture."""
    import altair as alt
    import vl_convert

    options = {
        "mode": "vega-lite",
        "renderer": "svg",
        "actions": {"export": True, "source": False, "compiled": False, "editor": False},
    }
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    script = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # its stub
    return (
        f'<!doctype html>\n<html lang="{choose_language()}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>chipwise</title>\n<script>{script}</script>\n</head>\n<body>\n<main>\n"
        f'<div id="picture" role="img" aria-label="{escape(described)}"></div>\n'
        f"<noscript>{_svg(chart, described)}</noscript>\n</main>\n"
        f"<script>vegaEmbed('#picture', {_harmless(chart.to_dict())}, {_harmless(options)});"
        "</script>\n</body>\n</html>\n"
    )


def _harmless(value: object) -> str:
    """JSON within a script: no name can close it."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# -- time and cost ---------------------------------------------------------------------------


def _pareto(rows: Rows, subject: str) -> alt.LayerChart:
    import altair as alt

    seen = points.cloud(rows)
    time_axis = _ticked(seen.time, _("time of the run [{unit}]").format(unit=seen.time_unit))
    expense_axis = _ticked(seen.expense, seen.expense_title)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=_log_scale(seen.time), axis=time_axis)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=_log_scale(seen.expense), axis=expense_axis)

    colour, shape = _vendor_colour(seen.vendors), _vendor_shape(seen.vendors)
    base = _of(seen.points)
    ranges = base.mark_rule(strokeWidth=1.2, opacity=0.4)
    layers = [
        _of(seen.front)
        .mark_line(interpolate="step-after", color=_GREY, strokeWidth=1.2)
        .encode(x=x("x"), y=y("y")),
        ranges.encode(x=x("x_low"), x2="x_high", y=y("y"), color=colour),
        ranges.encode(x=x("x"), y=y("y_low"), y2="y_high", color=colour),
        base.mark_point(filled=True, size=90, opacity=1, stroke="white", strokeWidth=0.8).encode(
            x=x("x"), y=y("y"), color=colour, shape=shape, tooltip=_tips(seen.tooltip)
        ),
        *(
            _of([one for one in seen.labels if (one["align"], one["on_front"]) == style])
            .mark_text(
                align=style[0],
                fontSize=12,
                fontWeight="bold" if style[1] else "normal",
                color=DARK if style[1] else _GREY,
            )
            .encode(x=x("x"), y=y("y"), text="label:N")
            for style in seen.styles()
        ),
    ]
    title = _title(seen.title, [subject, *seen.notes])
    return alt.LayerChart(layer=layers, width=WIDTH, height=points.HEIGHT, title=title)


def _of(rows: Rows) -> alt.Chart:
    import altair as alt

    return alt.Chart(alt.InlineData(values=list(rows)))


def _tips(fields: Sequence[tuple[str, str]]) -> list[alt.Tooltip]:
    import altair as alt

    return [alt.Tooltip(f"{key}:N", title=title) for key, title in fields]


def _log_scale(axis: LogAxis) -> alt.Scale:
    import altair as alt

    return alt.Scale(type="log", domain=[axis.low, axis.high], nice=False)


def _ticked(axis: LogAxis, title: str, form: str = ",.3~r") -> alt.Axis:
    import altair as alt

    return alt.Axis(values=axis.ticks(), format=form, title=title)


def _vendor_colour(vendors: Sequence[str]) -> alt.Color:
    import altair as alt

    colours = [VENDORS.get(vendor, VENDOR_UNKNOWN)[0] for vendor in vendors]
    names = [vendor_name(vendor) or _("maker unknown") for vendor in vendors]
    legend = alt.Legend(title=None, orient="bottom", symbolOpacity=1, columns=7)
    return alt.Color("vendor:N", scale=alt.Scale(domain=names, range=colours), legend=legend)


def _vendor_shape(vendors: Sequence[str]) -> alt.Shape:
    import altair as alt

    shapes = [VENDORS.get(vendor, VENDOR_UNKNOWN)[1] for vendor in vendors]
    names = [vendor_name(vendor) or _("maker unknown") for vendor in vendors]
    legend = alt.Legend(title=None, orient="bottom", symbolOpacity=1, columns=7)
    return alt.Shape("vendor:N", scale=alt.Scale(domain=names, range=shapes), legend=legend)


def _title(text: str, below: Sequence[str]) -> alt.TitleParams:
    import altair as alt

    return alt.TitleParams(text=text, subtitle=[line for line in below if line])


# -- scaling ---------------------------------------------------------------------------------


def _scaling(rows: Rows, subject: str) -> alt.VConcatChart:
    """Throughput over devices with the ideal, and the efficiency below."""
    import altair as alt

    seen = points.growth(rows)
    dashed = _("dashed: ideal, as fast per device as at the start")
    rate = alt.Y(
        scale=_log_scale(seen.rate), axis=_ticked(seen.rate, _("throughput [tokens/s]"), "~s")
    )
    share = alt.Y(
        scale=alt.Scale(domain=[0, seen.best_efficiency]),
        axis=alt.Axis(format="~%", title=_("efficiency [%]"), tickCount=5),
    )
    upper = _curves(seen, ("tokens_per_s", "ideal"), rate, 240, last=False)
    upper.title = _title(_("Scaling"), [subject, dashed])
    lower = _curves(seen, ("efficiency", "one"), share, 110, last=True)
    return alt.VConcatChart(vconcat=[upper, lower], spacing=12)


def _curves(
    seen: points.Growth, fields: tuple[str, str], axis: alt.Y, height: int, *, last: bool
) -> alt.LayerChart:
    """One value over devices, a line per mode, with the ideal (the second field) dashed."""
    import altair as alt

    field, ideal = fields
    x = alt.X(
        "devices:Q",
        scale=alt.Scale(type="log", base=2, domain=[seen.fewest, seen.most], nice=False),
        axis=alt.Axis(values=seen.counts, title=_("devices") if last else None, format=",d"),
    )
    colour, shape = _mode_colour(seen.modes), _mode_shape(seen.modes)

    def y(name: str) -> alt.Y:
        drawn = axis.copy()
        drawn.shorthand = f"{name}:Q"
        return drawn

    data = _of(seen.points)
    layers = [
        data.mark_line(strokeDash=[5, 4], strokeWidth=1.2).encode(x=x, y=y(ideal), color=colour),
        data.mark_line(strokeWidth=2).encode(x=x, y=y(field), color=colour),
        data.mark_point(filled=True, size=70, opacity=1).encode(
            x=x, y=y(field), color=colour, shape=shape, tooltip=_tips(seen.tooltip)
        ),
    ]
    return alt.LayerChart(layer=layers, width=WIDTH, height=height)


def _mode_colour(modes: Mapping[str, str]) -> alt.Color:
    import altair as alt

    colours = [MODES.get(mode, (PART_UNKNOWN, ""))[0] for mode in modes]
    legend = alt.Legend(title=None, orient="bottom", symbolOpacity=1, columns=7)
    scale = alt.Scale(domain=list(modes.values()), range=colours)
    return alt.Color("mode:N", scale=scale, legend=legend)


def _mode_shape(modes: Mapping[str, str]) -> alt.Shape:
    import altair as alt

    shapes = [MODES.get(mode, ("", "circle"))[1] for mode in modes]
    legend = alt.Legend(title=None, orient="bottom", symbolOpacity=1, columns=7)
    scale = alt.Scale(domain=list(modes.values()), range=shapes)
    return alt.Shape("mode:N", scale=scale, legend=legend)


# -- bars ------------------------------------------------------------------------------------


def _memory(rows: Rows, subject: str) -> alt.LayerChart:
    import altair as alt

    seen = bars.memory(rows)
    axis = alt.Axis(title=_("memory [GiB]"), tickCount=8, grid=False)
    return _stacks(seen, axis, _title(_("Memory of the fullest device"), [subject, *seen.notes]))


def _time(rows: Rows, subject: str) -> alt.LayerChart:
    import altair as alt

    seen = bars.time(rows)
    axis = alt.Axis(title=_("share of the step's time [%]"), format="~%", tickCount=6, grid=False)
    return _stacks(seen, axis, _title(_("Where the step's time goes"), [subject, *seen.notes]))


def _stacks(seen: bars.Stacks, axis: alt.Axis, title: alt.TitleParams) -> alt.LayerChart:
    """Stacked bars below their headings, with lines and whiskers where there are any."""
    import altair as alt

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=alt.Scale(domain=[0, seen.longest], nice=False), axis=axis)

    def y(field: str) -> alt.Y:
        scale = alt.Scale(domain=[0, seen.height], reverse=True, nice=False)
        return alt.Y(f"{field}:Q", scale=scale, axis=None)

    segments = (
        _of(seen.segments)
        .mark_rect(stroke="white", strokeWidth=0.6)
        .encode(x=x("start"), x2="end", y=y("top"), y2="bottom", color=_part_colour(seen.colours))
        .encode(tooltip=_tips(seen.tooltip))
    )
    layers = [segments, *_marks(seen, x, y), *_texts(seen, x, y)]
    return alt.LayerChart(layer=layers, width=WIDTH, height=seen.height, title=title)


def _marks(
    seen: bars.Stacks, x: Callable[[str], alt.X], y: Callable[[str], alt.Y]
) -> Iterator[alt.Chart]:
    """Lines across the bars, and ranges below them."""
    styles = ((seen.solid, 2.4, [1, 0]), (seen.dashed, 1.6, [3, 2]))
    for lines, width, dash in styles:
        mark = _of(lines).mark_rule(color=DARK, strokeWidth=width, strokeDash=dash)
        yield mark.encode(x=x("at"), y=y("top"), y2="bottom")
    ranges = _of(seen.whiskers)
    rule = ranges.mark_rule(color=_GREY, strokeWidth=1.4)
    yield rule.encode(x=x("low"), x2="high", y=y("y"))
    dot = ranges.mark_point(filled=True, size=34, color=_GREY, opacity=1)
    yield dot.encode(x=x("at"), y=y("y"))


def _texts(
    seen: bars.Stacks, x: Callable[[str], alt.X], y: Callable[[str], alt.Y]
) -> Iterator[alt.Chart]:
    """Values in the segments, and the headings of the bars."""
    for shade, texts in seen.texts().items():
        mark = _of(texts).mark_text(fontSize=11, color=shade)
        yield mark.encode(x=x("middle"), y=y("centre"), text="text:N")
    for one in bars.HEADINGS:
        mark = _of(seen.headings).mark_text(
            align=one.align, baseline="middle", limit=one.limit, fontWeight=one.weight,
            fontSize=12, color=one.colour,
        )  # fmt: skip
        yield mark.encode(x=x(one.x), y=y(one.y), text=f"{one.field}:N")


def _part_colour(colours: Mapping[str, str]) -> alt.Color:
    import altair as alt

    return alt.Color(
        "part:N",
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(title=None, orient="bottom", columns=3, symbolType="square"),
    )


_PICTURES: dict[str, Callable[[Rows, str], Any]] = {
    "pareto": _pareto,
    "scaling": _scaling,
    "memory": _memory,
    "time": _time,
}

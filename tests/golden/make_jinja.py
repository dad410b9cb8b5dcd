#!/usr/bin/env python3
"""Makes jinja_cases.json: what Python's jinja2, set up as Hugging Face transformers sets it up for chat templates,
renders for the templates below. Needs jinja2 3.1. Usage: make_jinja.py [OUTPUT]
"""
import json
import sys
from datetime import datetime
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime(2024, 2, 29, 13, 5, 9)


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: notes where its text begins and ends."""

    tags = {"generation"}
    written = []
    spans = []

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("note"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def note(self, context, caller):
        text = caller()
        begin = len("".join(self.written).encode())
        self.spans.append([begin, begin + len(text.encode())])
        return text


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore")


class MakeDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args):
        return dict.fromkeys(*args)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def render(source, context):
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals.update(
        raise_exception=raise_exception,
        strftime_now=NOW.strftime,
        dict=MakeDict(),
        namespace=Namespace,
    )
    Generation.written = []
    Generation.spans = []
    for piece in env.from_string(source).generate(**context):
        Generation.written.append(piece)
    return "".join(Generation.written), Generation.spans


CASES = []


def case(name, source, **context):
    CASES.append((name, source, context))


def expressions(group, *sources, **context):
    """One case each."""
    for i, source in enumerate(sources):
        case(f"{group} {i + 1}", "{{ " + source + " }}", **context)


USERS = [
    {"name": "ann", "age": 31, "tags": ["x", "y"], "city": {"name": "Oslo"}},
    {"name": "Bob", "age": 25, "tags": [], "city": {"name": "rome"}},
    {"name": "cy", "age": 31, "tags": ["y"], "city": {"name": "Oslo"}},
]
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi there"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "  2 + 2 = ?\n"},
    {"role": "assistant", "content": "4"},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city, in °C <now>",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
TOOL_CHAT = [
    {"role": "user", "content": "Weather in Zürich?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2}}},
            {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Bern", "exact": True}}},
        ],
    },
    {"role": "tool", "content": '{"t": 7.5}'},
    {"role": "tool", "content": "none"},
    {"role": "assistant", "content": "It is 7.5 degrees.", "reasoning_content": "Read the tool's answer."},
]

# ---- whitespace and lexing
case("text alone", "plain text\nwith lines\n")
case("empty", "")
case("only one last newline is dropped", "a\n\n")
case("carriage returns", "a\r\nb\rc\r\n{% if true %}\r\nd\r\n{% endif %}\r\n")
case("trim_blocks", "a\n{% if true %}\nb\n{% endif %}\nc")
case("lstrip_blocks", "a\n   {% if true %}\n  b\n\t{% endif %}\n  c")
case("lstrip only before a lone tag", "a  {% if true %}b{% endif %}  c")
case("lstrip at the very start", "   {% if true %}x{% endif %}")
case("lstrip needs a line of its own", "{{ 1 }}   {% if true %}x{% endif %}")
case("minus signs", "a  \n {%- if true -%} \n b \n {%- endif -%} \n c")
case("plus signs", "a\n  {%+ if true +%}\n  b\n  {%+ endif +%}\nc")
case("minus in output", "a \n {{- 'b' -}} \n c")
case("negative number is no sign", "{{ -1 }}|{{- -1 }}|{{ 3 -1 }}")
case("comments", "a {# one #} b {#- two -#} c\n  {# three #}\nd{#+ four +#}\ne")
case("comment hides tags", "{# {% if %} {{ x }} #}ok")
case("raw", "{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  {{ y }}  {%- endraw -%}  z")
case("raw with newlines", "a\n{% raw %}\n  {{ b }}\n{% endraw %}\nc")
case("raw keeps comments", "{% raw %}{# c #}{% endraw %}")
case("braces in text", "{ } {x} }} %} #}{")
case("dict in output", "{{ {'a': {'b': 1}}['a'] }}{{ {'x':{}} }}")
case("non-breaking space is stripped", "a\u00a0\u3000{{- 'b' }}")
case("string escapes", r"""{{ 'a\nb\tc\\d\'e\"f\x41\u00e9\U0001F600\101\q' }}|{{ "it's" }}|{{ 'say "x"' }}""")
case("adjacent strings", "{{ 'a' 'b' \"c\" }}")
case("multi-line string", "{{ 'a\nb' }}")
case("unicode literals", "{{ '日本語 ßẞ é' }}{% set größe = 3 %}{{ größe }}")
case("numbers", "{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5 }} {{ 1e3 }} {{ 2.5e-7 }} {{ 1_0.5 }} {{ 00 }}")
case("constants", "{{ true }} {{ True }} {{ false }} {{ none }} {{ None }}")
case("tuple output", "{{ 1, 2 }} {{ (1,) }} {{ () }} {{ (1) }}")
case("trailing commas", "{{ [1, 2,] }} {{ {'a': 1,} }} {{ dict(a=1,) }}")

# ---- operators
expressions(
    "arithmetic",
    "1 + 2 * 3 - 4",
    "7 / 2",
    "6 / 2",
    "7 // 2, -7 // 2, 7 // -2, -7 // -2, 7.5 // 2, -7.5 // 2",
    "7 % 3, -7 % 3, 7 % -3, 7.5 % 2, -7.5 % 2",
    "2 ** 10, 2 ** -1, 2 ** 0.5, 2 ** 3 ** 2, -2 ** 2, (-8) ** 3",
    "- - 2, + 3, -(1 + 2), -true",
    "true + true, 1 + 1.0, 1 == 1.0, 1 == true, 0 == false",
    "0.1 + 0.2, 1e16, 1e15, 1.0, 100.0, 1e-4, 1e-5, 123456789.123, -0.0, 1e100, 1.5e300 * 1e10",
    "'ab' * 3, 2 * [1, 2], 'x' * -1",
    "'a' + 'b', [1] + [2], (1,) + (2,)",
    "1 ~ 'a' ~ none ~ 2.0 ~ [1, 'x'] ~ undefined_thing",
    "'%s is %d and %.2f%%' % ('x', 3, 1.5)",
    "'%5d|%-5d|%05d|%+d|%x|%X|%o|%#x' % (42, 42, 42, 42, 255, 255, 8, 255)",
    "'%(a)s %(b)r' % {'a': 1, 'b': 'q'}",
    "'%s' % 'one', '%s' % [1, 2], '%c%c' % (65, 'z'), '%10.3s|' % 'abcdef', '%e %g' % (12345.678, 0.0001)",
)
expressions(
    "comparison",
    "1 < 2, 2 <= 2, 3 > 4, 4 >= 5, 1 != 2",
    "1 < 2 < 3, 1 < 3 < 2, 1 == 1 != 2",
    "'a' < 'b', 'Z' < 'a', 'abc' < 'abd', 'é' > 'z'",
    "[1, 2] < [1, 3], [1] == [1], [1] == (1,), (1, 2) < (1, 2, 3)",
    "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}, none == false, '1' == 1",
    "'a' in 'cat', 'a' in ['a'], 'a' in {'a': 1}, 1 in (1, 2), 'a' not in 'xyz', 3 in range(5), 1.0 in [1]",
    "not true, not 0, not '', not [], not none, not 'x'",
    "not 1 in [2]",
    "1 and 0, 0 or 'x', '' or none, 1 and 'y', none and 1, false or false or 3",
    "true and not false or false",
    "missing == missing2, missing == none, missing is defined, missing",
)
expressions(
    "conditional",
    "'a' if true else 'b'",
    "'a' if false",
    "('a' if false) is defined",
    "1 if false else 2 if false else 3",
    "('x' if missing else 'y') ~ 'z'",
)
expressions(
    "subscripts",
    "xs[0], xs[-1], xs[9] is defined, xs[1:3], xs[:2], xs[2:], xs[::-1], xs[::2], xs[-2:], xs[5:], xs[:-1]",
    "s[0], s[-1], s[1:3], s[::-1], s[::2], s[99:] ~ '.', s[-3:-1]",
    "u[0], u[1], u[-1], u[1:3], u[::-1], u | length",
    "d.a, d['a'], d.missing is defined, d['missing'] is defined, d.b.c, d['b']['c'], d.get('a'), d.get('z', 5)",
    "d.items is callable, d['items'] is callable, d.keys() | list, d.values() | list, d.items() | list",
    "t[0], t[1:], t.0, xs.1, (1, 2, 3)[1:]",
    "range(10)[3], range(10)[2:5] | list, range(5, 0, -2) | list, range(3), range(1, 9, 3)",
    "xs[true], d[1], {1: 'a'}[1.0], {none: 2}[none]",
    "xs[none:none:none], xs[10:0:-1], xs[-100:100]",
    xs=[10, 20, 30, 40],
    s="hello",
    u="a日😀é",
    d={"a": 1, "b": {"c": 2}},
    t=[1, 2, 3],
)
case("attribute of a missing key", "{{ d.x.y }}", d={})
case("item of a missing name", "{{ nope['a'] }}")
case("dict method before key", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{{ d['items'] }}", d={"items": 1})
case("key named like a method by subscript", "{{ d['get'] }} {{ d['copy'] }}", d={"get": "g", "copy": "c"})

# ---- statements
case("if elif else", "{% for i in [1, 2, 3] %}{% if i == 1 %}one{% elif i == 2 %}two{% else %}more{% endif %} {% endfor %}")
case("loop variables", "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }} {% endfor %}", xs=["a", "b", "c"])
case("previtem and nextitem", "{% for x in xs %}[{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }}]{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}", xs=[1, 2, 3])
case("loop cycle and changed", "{% for x in xs %}{{ loop.cycle('odd', 'even') }}{% if loop.changed(x) %}!{% endif %} {% endfor %}", xs=[1, 1, 2, 2, 1])
case("loop filter", "{% for x in xs if x % 2 %}{{ loop.index }}:{{ x }}/{{ loop.length }}{{ ',' if not loop.last }}{% endfor %}", xs=[1, 2, 3, 4, 5])
case("loop else", "{% for x in [] %}x{% else %}empty{% endfor %}{% for x in [1] if x > 1 %}x{% else %} none{% endfor %}")
case("loop else after break", "{% for x in [1, 2] %}{% break %}{% else %}else{% endfor %}|{% for x in [1, 2] %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}")
case("break and continue", "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}")
case("nested loops", "{% for a in [1, 2] %}{% for b in 'xy' %}{{ a }}{{ b }}{{ loop.index }} {% endfor %}{{ loop.index }};{% endfor %}")
case("unpacking", "{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}-{{ b }} {% endfor %}{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}")
case("loop over dict", "{% for k in d %}{{ k }}={{ d[k] }} {% endfor %}", d={"z": 1, "a": 2})
case("loop over undefined", "{% for x in nothing %}x{% else %}none{% endfor %}")
case("loop over string", "{% for c in 'aé😀' %}[{{ c }}]{% endfor %}")
case("recursive loop", "{% for n in tree recursive %}{{ n.v }}{{ loop.depth }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}", tree=[{"v": "a", "c": [{"v": "b", "c": [{"v": "c"}]}]}, {"v": "d"}])
case("scope of loops", "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i + 10 %}{{ x }} {% endfor %}{{ x }}")
case("scope of if", "{% if true %}{% set x = 5 %}{% endif %}{{ x }}")
case("loop variable after loop", "{% for i in [1] %}{% endfor %}{{ i is defined }}")
case("namespace", "{% set ns = namespace(n=0, found=false) %}{% for i in [1, 2, 3] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }} {{ ns.found }} {{ ns['n'] }} {{ ns.nope is defined }}")
case("namespace from dict", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}")
case("set tuples", "{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}")
case("set block", "{% set x %}a{{ 1 }}\n b{% endset %}[{{ x }}]{{ x is string }}")
case("set block with filter", "{% set x | upper | trim %}  abc {% endset %}[{{ x }}]")
case("set block to namespace", "{% set ns = namespace() %}{% set ns.t %}hi{% endset %}{{ ns.t }}")
case("with", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% with %}{% set q = 1 %}{% endwith %}{{ q is defined }}")
case("filter block", "{% filter upper | replace('B', 'x') %}abc {{ 'def' }}{% endfilter %}")
case("macros", "{% macro f(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 2) }} {{ f(a=1, c=3) }} {{ f() }}")
case("macro varargs", "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, k=4) }}{{ f(1) }}")
case("macro sees globals as they are", "{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% set x = 2 %}{{ f() }}")
case("macro recursion", "{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}")
case("macro inside loop", "{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}")
case("call block", "{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box('b') %}in {{ 1 + 1 }}{% endcall %}")
case("call block with arguments", "{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(v, i) each('ab') %}{{ i }}{{ v }} {% endcall %}")
case("macro whitespace", "{% macro m(x) -%}\n  [{{ x }}]\n{%- endmacro %}\n{{ m(1) }}\n")
case("block", "{% block body %}in {{ x }}{% endblock %} {% block b2 scoped %}y{% endblock b2 %}", x=1)
case("print", "{% print 1, 'a' %}")
case("colon after condition", "{% if true: %}x{% endif %}")
case("cycler and joiner", "{% set c = cycler('a', 'b') %}{% set j = joiner('|') %}{% for i in range(3) %}{{ j() }}{{ c.next() }}{% endfor %}{{ c.current }}")
case("dict function", "{{ dict(a=1, b=2) }}{{ dict([('x', 1)], y=2) }}{{ dict({'q': 0}) }}{{ dict.fromkeys('ab', 1) }}")
case("strftime_now", "{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %A %j %y %I %p %%') }}")
case("generation", "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}<end>{% endgeneration %}\n{% else %}{{ m.content }}\n{% endif %}{% endfor %}", messages=CHAT)
case("generation scope", "{% set x = 1 %}{% generation %}{% set x = 2 %}é{{ x }}{% endgeneration %}{{ x }}{%- generation -%}  z  {%- endgeneration -%}")

# ---- filters
expressions(
    "text filters",
    "' ab '|trim ~ '|' ~ 'xxaxx'|trim('x') ~ '|' ~ none|trim ~ '|' ~ nope|trim",
    "'aBc dé'|upper, 'ÀB'|lower, 'hELLO wORLD'|capitalize, 'hello world-foo (bar) it\\'s'|title, 'straße'|upper",
    "'aaa'|replace('a', 'b'), 'aaa'|replace('a', 'b', 2), 'abc'|replace('', '-'), 5|replace(5, 6)",
    "'a\\nb\\n\\nc'|indent, 'a\\nb'|indent(2, true), 'a\\n\\nb'|indent(2, blank=true), 'a\\nb'|indent('> ', first=true), 'a\\n'|indent",
    "'foo bar baz qux'|truncate(9), 'foo bar baz qux'|truncate(9, true), 'foo bar baz qux'|truncate(11), 'foo bar baz qux'|truncate(11, false, '...', 0)",
    "'x'|center(5) ~ '|' ~ 'ab'|center(5) ~ '|' ~ 'abc'|center(6) ~ '|'",
    "'Hello, wörld foo_bar'|wordcount, ('<a href=\"x\">\\'&\\'</a>'|escape) ~ '', '<b>x</b>  y <!-- c --> &lt;'|striptags",
    "'a b/c?é'|urlencode, {'a': 1, 'b c': 'd&e'}|urlencode, '%s-%s'|format(1, 'a'), '%(x)s'|format(x=3)",
    "1|string ~ '2', [1]|string, 'a'|string is string, ('abc'|safe) ~ '', {'class': 'x', 'n': none, 'id': '<'}|xmlattr",
    "'abc'|length, 'é😀'|length, [1, 2]|length, {'a': 1}|count, nope|length, range(4)|length, ''|length",
    "1000|filesizeformat, 1|filesizeformat, 1500000|filesizeformat, 1048576|filesizeformat(true), 12|filesizeformat",
)
expressions(
    "number filters",
    "'42'|int, '42.9'|int, 'x'|int, 'x'|int(7), '0x1f'|int(0, 16), 3.9|int, -3.9|int, true|int, none|int(5), ' 1_0 '|int, '101'|int(base=2)",
    "'1.5'|float, 'x'|float, 'x'|float(2.5), 3|float, '1e3'|float, ' inf '|float, '-7'|float",
    "-5|abs, 5.5|abs, (-5)|abs, (-2.5)|abs",
    "42.55|round, 42.55|round(1), 42.55|round(1, 'floor'), 42.51|round(1, 'ceil'), 2.5|round, 3.5|round, 42|round, 2.675|round(2), 1234.5|round(-2)",
)
expressions(
    "sequence filters",
    "xs|first, xs|last, []|first is defined, 'abc'|first, 'abc'|last, nope|first is defined, {'k': 1}|first",
    "xs|join, xs|join(', '), xs|join(1), 'abc'|join('-'), []|join('x'), users|join(', ', attribute='name'), nope|join",
    "xs|sort, xs|sort(reverse=true), ['b', 'A', 'c']|sort, ['b', 'A', 'c']|sort(case_sensitive=true), users|sort(attribute='age')|map(attribute='name')|list, users|sort(attribute='city.name,name')|map(attribute='name')|join(' ')",
    "{'b': 1, 'A': 2, 'c': 0}|dictsort, {'b': 1, 'A': 2}|dictsort(true), {'b': 1, 'A': 2}|dictsort(by='value'), {'b': 1, 'A': 2}|dictsort(false, 'value', true)",
    "xs|reverse|list, 'abc'|reverse, (1, 2)|reverse|list, {'a': 1, 'b': 2}|reverse|list",
    "xs|min, xs|max, ['b', 'A']|min, []|max is defined, users|max(attribute='age'), ['b', 'A']|min(case_sensitive=true)",
    "[1, 1.0, 'a', 'A', 'b']|unique|list, users|unique(attribute='age')|map(attribute='name')|list, ['a', 'A']|unique(true)|list",
    "xs|sum, []|sum, users|sum(attribute='age'), [1.5, 2]|sum, xs|sum(start=10), [[1], [2]]|sum(start=[])",
    "range(7)|batch(3)|list, range(7)|batch(3, 'x')|list, range(7)|slice(3)|list, range(7)|slice(3, 'x')|list",
    "'abc'|list, {'a': 1}|list, range(3)|list, nope|list, xs|map('string')|list",
    "users|map(attribute='name')|list, users|map(attribute='tags.0')|list, users|map(attribute='zip', default='?')|list, ['a', 'b']|map('upper')|join, ['a', 'b']|map('replace', 'a', 'x')|list",
    "xs|select('odd')|list, xs|select('divisibleby', 3)|list, xs|reject('odd')|list, xs|select('>', 2)|list, [0, 1, '', 'a', none]|select|list, [0, 1]|reject|list",
    "users|selectattr('age', 'equalto', 31)|map(attribute='name')|list, users|selectattr('tags')|list|length, users|rejectattr('tags')|map(attribute='name')|list, users|selectattr('zip', 'undefined')|list|length, users|selectattr('city.name', 'eq', 'Oslo')|map(attribute='name')|join('+')",
    "users|groupby('age')|map('first')|list, users|groupby('city.name')|map('last')|map('length')|list, users|groupby('zip', default='none')|length",
    "nope|default('d'), nope|d('x'), none|default('d'), ''|default('d'), ''|default('d', true), none|default('d', boolean=true), 0|d(5, true), nope|default",
    "{'a': 1, 'b': 2}|items|list, nope|items|list, 'x'|attr('upper') is callable, {'a': 1}|attr('a') is defined",
    "(xs|map('int')) is iterable, (xs|map('int')) is sequence, true if xs|select('gt', 100) else false",
    xs=[3, 1, 2],
    users=USERS,
)
case("generators run dry", "{% set g = xs|map('string') %}{{ g|list }}{{ g|list }}{% set h = xs|select %}{{ h|first }}{{ h|list }}", xs=[1, 2])
case("groupby attributes", "{% for g in users|groupby('age') %}{{ g.grouper }}:{{ g.list|map(attribute='name')|join(',') }} {% endfor %}{% for a, us in users|groupby('age') %}{{ a }}{{ us|length }}{% endfor %}", users=USERS)
expressions(
    "tojson",
    "v|tojson",
    "v|tojson(indent=2)",
    "v|tojson(indent=0)",
    "v|tojson(separators=(',', ':'))",
    "v|tojson(ensure_ascii=true)",
    "v|tojson(sort_keys=true, indent='\\t')",
    "[]|tojson(indent=2), {}|tojson(indent=2), [[]]|tojson(indent=1), (1, 2)|tojson, '\"\\\\/\\n'|tojson, 1.0|tojson, 1e20|tojson, {1: 2, none: 3, true: 4, 1.5: 5}|tojson",
    v={"name": "é<a>&'", "z": [1, 2.5, None, True], "a": {"empty": {}, "l": []}, "t": "tab\tnl\n\u0001\u007f😀"},
)

# ---- tests
expressions(
    "tests",
    "x is defined, nope is defined, nope is undefined, x is not defined, d.a is defined, d.z is undefined",
    "1 is number, 1.5 is number, true is number, '1' is number, 1 is integer, true is integer, 1.0 is integer, 1.0 is float, 1 is float",
    "'a' is string, 1 is string, [] is sequence, 'a' is sequence, {} is sequence, 1 is sequence, {} is mapping, [] is mapping, [] is iterable, 5 is iterable, none is iterable",
    "none is none, 0 is none, nope is none, true is boolean, 1 is boolean, true is true, 1 is true, false is false",
    "3 is odd, 3 is even, 4 is even, 9 is divisibleby 3, 9 is divisibleby(2), 3 is in [1, 3], 'a' is in 'cat', 3 is not in [1]",
    "1 is eq 1, 1 is equalto 2, 1 is ne 2, 1 is lt 2, 2 is gt 1, 2 is ge 2, 1 is le 0, 1 is sameas 1, none is sameas none, true is sameas 1",
    "'abc' is lower, 'ABC' is upper, 'Abc' is lower, 'upper' is filter, 'nope' is filter, 'odd' is test, 'x' is callable, x is not none and x is string",
    x="x",
    d={"a": None},
)

# ---- methods
expressions(
    "string methods",
    "' a b '.strip() ~ '|' ~ ' a '.lstrip() ~ '|' ~ ' a '.rstrip() ~ '|' ~ 'xxaxy'.strip('xy') ~ '|' ~ 'aab'.lstrip('a')",
    "'a,b,,c'.split(','), ' a  b c '.split(), 'a b c'.split(' ', 1), 'a b c '.split(None, 1), 'a,b,c'.rsplit(',', 1), ''.split(), ''.split(','), ' a b '.rsplit(none, 1)",
    "'abc'.startswith('ab'), 'abc'.startswith(('x', 'a')), 'abc'.endswith('bc'), 'abc'.startswith('b', 1), 'abc'.endswith('b', 0, 2)",
    "'abcabc'.find('c'), 'abc'.find('z'), 'abcabc'.rfind('c'), 'éa'.find('a'), 'abcabc'.count('bc'), 'abc'.index('b'), 'aaa'.count('a', 1), 'ab'.count('')",
    "'abc'.upper(), 'ABC'.lower(), 'aBC'.capitalize(), 'ab cd'.title(), 'aB'.swapcase(), 'Straße'.casefold(), \"they're bill's\".title()",
    "'a-b'.replace('-', '+'), 'aaa'.replace('a', 'b', 1), '-'.join(['a', 'b']), ''.join('xyz'), 'a=b=c'.partition('='), 'a=b=c'.rpartition('='), 'x'.partition('=')",
    "'prefix-x'.removeprefix('prefix-'), 'x.py'.removesuffix('.py'), 'x'.removesuffix(''), 'ab'.center(6, '*'), 'ab'.ljust(4) ~ '|', 'ab'.rjust(4), '-42'.zfill(5), 'a\\tb'.expandtabs(4)",
    "'a\\nb\\r\\nc'.splitlines(), 'a\\n'.splitlines(true), 'abc'.isalpha(), 'a1'.isalnum(), '12'.isdigit(), ' '.isspace(), 'Ab'.islower(), 'AB'.isupper(), 'Ab Cd'.istitle(), '½'.isnumeric(), 'x1'.isidentifier(), 'é'.isascii(), ''.isalpha()",
    "'{} {}'.format(1, 'a'), '{1}{0}'.format('a', 'b'), '{x!r}'.format(x='q'), '{:>5}|{:<5}|{:^5}|{:05.1f}'.format('a', 'b', 'c', 2.25), '{:,}'.format(1234567), '{{}}'.format(), '{0[a]}{0[b][1]}'.format({'a': 1, 'b': [2, 3]}), '{:x} {:#b} {:.1%}'.format(255, 5, 0.256), '{:{w}}|'.format('a', w=3)",
)
expressions(
    "container methods",
    "{'a': 1}.get('a'), {'a': 1}.get('b') is none, {'a': 1}.get('b', 'c'), {'a': 1}.items(), {'a': 1}.keys(), {'a': 1}.values()",
    "[1, 2, 1].count(1), [1, 2].index(2), (1, 2).index(1), [1].copy(), {'a': 1}.copy(), {'a': 1}.items()|length",
    "(2.0).is_integer(), 'x' in {'x': 1}.keys(), 1 in {'x': 1}.values()",
)
expressions(
    "repr",
    "[1, 'a', \"it's\", 'q\"', 'both\\'\"', none, true, 1.0, {'k': (1,)}, 'nl\\n', 'é\\u200b\\x00', '\\\\']",
    "{'a': {'b': []}}, [()], [nope], 'top\\'level'",
)

# ---- chat templates
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}"
    "{% endif %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
case("chatml", CHATML, messages=CHAT, add_generation_prompt=True)
case("chatml default system", CHATML, messages=CHAT[1:3], add_generation_prompt=False)
case("chatml content missing", CHATML, messages=[{"role": "user"}])
HEADERS = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\n" }}
{{- "Today: " + (date_string if date_string is defined else strftime_now("%d %b %Y")) + "\\n" }}
{%- if tools is not none and tools %}
    {{- "Tools: " }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message + "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n' + message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- for call in message.tool_calls %}
            {{- '{"name": "' + call.function.name + '", "parameters": ' + call.function.arguments | tojson + '}' }}
        {%- endfor %}
        {{- "<|eot|>" }}
    {%- else %}
        {{- "<|start|>ipython<|end|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
"""
for i, chat in enumerate([CHAT, CHAT[1:], TOOL_CHAT]):
    case(f"header style {i + 1}", HEADERS, messages=chat, tools=TOOLS if i else None, bos_token="<s>", add_generation_prompt=i != 1)
THINKING = """\
{%- set ns = namespace(last=messages|length - 1, seen=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.seen and message.role == "user" and not (message.content is string and message.content.startswith('<tool>')) %}
        {%- set ns.seen = true %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- set content = message.content %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is defined and message.reasoning_content is not none %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in message.content %}
            {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
            {%- set thought = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and thought %}
            {{- '<assistant>\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<assistant>\\n' + content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
            {%- if call.function %}{%- set call = call.function %}{%- endif %}
            {{- '<call>' ~ call.name ~ ' ' ~ (call.arguments if call.arguments is string else call.arguments|tojson) ~ '</call>' }}
        {%- endfor %}
        {{- '</assistant>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or loop.previtem.role != "tool" %}{{- '<user>' }}{%- endif %}
        {{- '\\n<tool>' ~ message.content ~ '</tool>' }}
        {%- if loop.last or loop.nextitem.role != "tool" %}{{- '</user>\\n' }}{%- endif %}
    {%- else %}
        {{- '<' + message.role + '>' + message.content + '</' + message.role + '>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<assistant>\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""
for i, chat in enumerate([CHAT, TOOL_CHAT, [{"role": "user", "content": "q"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\na"}]]):
    case(f"thinking style {i + 1}", THINKING, messages=chat, add_generation_prompt=i == 0, enable_thinking=False)
ALTERNATING = """\
{{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Roles must alternate user/assistant, got ' ~ message['role'] ~ ' at ' ~ loop.index0) }}
{% endif %}
{% if message['role'] == 'user' %}{{ '[INST] ' ~ message['content'].strip() ~ ' [/INST]' }}{% else %}{{ ' ' ~ message['content'].strip() ~ eos_token }}{% endif %}
{% endfor %}"""
case("alternating roles", ALTERNATING, messages=CHAT[1:], bos_token="<s>", eos_token="</s>")
case("alternating roles broken", ALTERNATING, messages=CHAT, bos_token="<s>", eos_token="</s>")
SCHEMA = """\
{%- macro type_of(p) -%}
{%- if p.type is string %}{{ p.type }}{% elif p.type is iterable %}{{ p.type | join(' | ') }}{% else %}any{% endif -%}
{%- endmacro -%}
{%- macro render(props, required=[], indent=0) -%}
{%- for name, p in props | dictsort -%}
{{ '  ' * indent }}{{ name }}{{ '' if name in required else '?' }}: {{ type_of(p) }}
{% if p.properties is defined %}{{ render(p.properties, p.required or [], indent + 1) }}{% endif -%}
{%- endfor -%}
{%- endmacro -%}
{%- for tool in tools %}
namespace {{ tool.function.name }} {
{{ render(tool.function.parameters.properties, tool.function.parameters.get('required', [])) -}}
}
{% endfor %}"""
case("schema macros", SCHEMA, tools=[{"function": {"name": "f", "parameters": {"properties": {"b": {"type": ["string", "null"]}, "a": {"type": "object", "properties": {"x": {"type": "integer"}, "w": {}}, "required": ["x"]}}, "required": ["b"]}}}])
case("content parts", "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% elif p['type'] == 'image' or 'image' in p %}<image>{% endif %}{% endfor %}{% endif %};{% endfor %}", messages=[{"content": "a"}, {"content": [{"type": "image"}, {"type": "text", "text": "see"}]}])
case("roles mapped by dict", "{% set names = {'user': 'Human', 'assistant': 'AI'} %}{% for m in messages %}{{ names.get(m.role, m.role|title) }}: {{ m.content }}{{ '\n' if not loop.last }}{% endfor %}", messages=CHAT)

# ---- errors
expressions(
    "layout",
    "'aaa bbb ccc dddddddddddd e' | wordwrap(7)",
    "'aaa bbb ccc dddddddddddd e' | wordwrap(7, false)",
    "'well-known co-op a-b 3-4 x--y' | wordwrap(6)",
    "'well-known a--b' | wordwrap(6, break_on_hyphens=false)",
    "'one two\\n\\nthree  four' | wordwrap(5, wrapstring='|')",
    "'  space before\\tand after  ' | wordwrap(6), '' | wordwrap(1)",
    "'żółty dom' | wordwrap(4)",
    "'see http://example.com/a?b=c. or www.x.org, (mail a@b.co) <https://y.org/p>' | urlize",
    "'http://example.com/aaaaaaaaaaaaaaaaaaaaaa' | urlize(20, true)",
    "'www.a.com/(b)) (info.net) tel:5 x.y mailto:q@r.de' | urlize(target='_blank', rel='me')",
    "'a:b ftp://c' | urlize(extra_schemes=['ftp:'])",
    "[1, 'a', none, 2.0, [1], {'k': 'v'}, {}, (), ('x',)] | pprint",
    "{'b': 1, 'a': [2, 1], 3: none} | pprint",
    "{'some long key': 'value ' * 5, 'b': ['item'] * 12, 'c': {'n': {'m': [1, 2, 3] * 9}}} | pprint",
    "['word ' * 20, 'é' * 90] | pprint",
    "('a b ' * 40) | pprint, 'x' | pprint",
    "['line one is long ' * 4 ~ '\\n' ~ 'two ' * 10] | pprint",
)
expressions(
    "numbers and fields",
    "42 | round(-1), 45 | round(-1), 55 | round(-1), -45 | round(-1), 7 | round(-3), 5 | round(-20)",
    "'{:_} {:_b} {:#_x} {:,}'.format(1234567, 255, 65535, 1234567)",
    "'{0.a} {1[b]}'.format({'a': 1}, {'b': 2})",
    "'İŉﬁß'.casefold()",
)

ERRORS = {
    "undefined attribute": "{{ x.y }}",
    "undefined in addition": "{{ 'a' + x }}",
    "undefined called": "{{ x() }}",
    "undefined compared": "{{ x < 1 }}",
    "undefined sliced": "{{ x[1:] }}",
    "undefined as json": "{{ {'a': x}|tojson }}",
    "undefined to int": "{{ x|int }}",
    "undefined indented": "{{ x|indent }}",
    "none added": "{{ none + 'a' }}",
    "text plus number": "{{ 'a' + 1 }}",
    "number plus text": "{{ 1 + 'a' }}",
    "list plus tuple": "{{ [1] + (2,) }}",
    "text compared with number": "{{ 'a' < 1 }}",
    "sorting mixed types": "{{ [1, 'a']|sort }}",
    "none in loop": "{% for a in none %}{% endfor %}",
    "number in loop": "{% for a in 5 %}{% endfor %}",
    "in a number": "{{ 1 in 5 }}",
    "number in text": "{{ 1 in 'abc' }}",
    "length of a number": "{{ 5|length }}",
    "length of a generator": "{{ ([1]|map('string'))|length }}",
    "last of a generator": "{{ ([1]|map('string'))|last }}",
    "division by zero": "{{ 1 / 0 }}",
    "floor division by zero": "{{ 1 // 0 }}",
    "modulo by zero": "{{ 1 % 0 }}",
    "raise_exception": "a\nb{{ raise_exception('no ' ~ 'way') }}",
    "list is immutable": "{{ [].append(1) }}",
    "dict is immutable": "{{ {}.update({'a': 1}) }}",
    "namespace attribute of other": "{% set d = {} %}{% set d.x = 1 %}",
    "namespace underscore": "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "unpack too few": "{% for a, b in [(1,)] %}{% endfor %}",
    "unpack too many": "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "unpack a number": "{% set a, b = 5 %}",
    "macro takes fewer": "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
    "macro keyword": "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}",
    "call of text": "{{ 'a'() }}",
    "call of a missing method": "{{ 'a'.nope() }}",
    "missing argument": "{{ 'a'.startswith() }}",
    "filter argument": "{{ 'a'|replace('a') }}",
    "filter unknown argument": "{{ 'a'|trim(nope=1) }}",
    "wrong argument type": "{{ 'a'.strip(1) }}",
    "join of numbers": "{{ ','.join([1]) }}",
    "empty separator": "{{ 'a'.split('') }}",
    "unhashable key": "{{ {[1]: 2} }}",
    "slice step zero": "{{ 'abc'[::0] }}",
    "slice bound": "{% set s = 'abc' %}{{ s['a':] }}",
    "dict sliced": "{% set d = {} %}{{ d[1:] }}",
    "format too few": "{{ '%s %s' % ('a',) }}",
    "format too many": "{{ '%s' % ('a', 'b') }}",
    "format needs a number": "{{ '%d' % 'a' }}",
    "range step zero": "{{ range(1, 2, 0) }}",
    "range too big": "{{ range(1000000) }}",
    "range of text": "{{ range('a') }}",
    "items of a list": "{{ [1]|items|list }}",
    "dictsort of a list": "{{ [1]|dictsort }}",
    "index not found": "{{ [1].index(2) }}",
    "loop called without recursive": "{% for a in [1] %}{{ loop([1]) }}{% endfor %}",
    "caller missing": "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}",
    "call block of a macro without caller": "{% macro f() %}{% endmacro %}{% call f() %}{% endcall %}",
    "include": "{% include 'x' %}",
    "unknown filter in if": "{% if true %}{{ 1|nope }}{% endif %}",
    "syntax unknown filter": "{{ 1|nope }}",
    "syntax unknown test": "{{ 1 is nope }}",
    "syntax unclosed if": "{% if true %}",
    "syntax unclosed for": "a\n{% for x in y %}\nb",
    "syntax wrong end": "{% if true %}{% endfor %}",
    "syntax unknown tag": "{% nope %}",
    "syntax do is absent": "{% do [1] %}",
    "syntax unclosed output": "{{ 1",
    "syntax unclosed comment": "a {# b",
    "syntax unclosed raw": "{% raw %}a",
    "syntax unclosed string": "{{ 'a }}",
    "syntax empty output": "{{ }}",
    "syntax empty if": "{% if %}{% endif %}",
    "syntax bracket": "{{ (1 }}",
    "syntax wrong bracket": "{{ (1] }}",
    "syntax operator": "{{ 1 + }}",
    "syntax two operands": "{{ 1 2 }}",
    "syntax char": "{{ 1 $ 2 }}",
    "syntax bang": "{{ !x }}",
    "syntax assign to constant": "{% set true = 1 %}",
    "syntax assign to number": "{% set 1 = 2 %}",
    "syntax assign to loop": "{% for x in [1] %}{% set loop = 1 %}{% endfor %}",
    "syntax break outside": "{% break %}",
    "syntax continue in macro": "{% for x in [1] %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}",
    "syntax missing in": "{% for x of y %}{% endfor %}",
    "syntax keyword before positional": "{{ dict(a=1, 2) }}",
    "syntax default order": "{% macro f(a=1, b) %}{% endmacro %}",
    "syntax chained tests": "{{ 1 is odd is even }}",
    "syntax else alone": "{% else %}",
    "syntax stray end": "{% endif %}",
    "syntax dot": "{{ x. }}",
    "syntax comparison": "{{ 1 = 1 }}",
    "syntax double parameter": "{% macro f(a, a) %}{% endmacro %}",
    "syntax double block": "{% block a %}{% endblock %}{% block a %}{% endblock %}",
    "fields counted and numbered": "{{ '{} {0}'.format(1) }}",
    "grouped hexadecimal": "{{ '{:,x}'.format(5) }}",
    "wrapping to nothing": "{{ 'a' | wordwrap(0) }}",
    "scheme of no kind": "{{ 'a' | urlize(extra_schemes=['f tp:']) }}",
}
for name, source in ERRORS.items():
    case(name, source)


def main():
    output = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("jinja_cases.json"))
    cases = []
    for name, source, context in CASES:
        entry = {"name": name, "template": source}
        if context:
            entry["context"] = context
        try:
            entry["expect"], spans = render(source, context)
            if spans:
                entry["spans"] = spans
            if name in ERRORS:
                raise SystemExit(f"{name}: rendered {entry['expect']!r}, an error was expected")
        except Exception as error:  # whatever Python raises ends the render
            if name not in ERRORS and name not in ("attribute of a missing key", "item of a missing name", "chatml content missing", "alternating roles broken"):
                raise SystemExit(f"{name}: {type(error).__name__}: {error}")
            entry["error"] = str(error)
            if isinstance(error, jinja2.TemplateSyntaxError):
                entry["line"] = error.lineno
        cases.append(entry)
    header = {
        "generator": "make_jinja.py with jinja2 " + jinja2.__version__,
        "now": NOW.strftime("%Y-%m-%dT%H:%M:%S"),
    }
    lines = [json.dumps(c, ensure_ascii=False) for c in cases]
    output.write_text(
        json.dumps(header)[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8"
    )
    print(len(cases), "cases")


if __name__ == "__main__":
    main()

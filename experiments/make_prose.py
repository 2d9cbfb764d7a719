"""Write `devices/agent/workloads/data/prose.txt`, the text of `char-transformer`: `python -m experiments.make_prose`.

Sentences about the people of a harbour, drawn from the grammar below: varied enough that a small model goes on
learning for a while, regular enough that it gets somewhere in a minute. Grammar and words are this project's own.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "devices" / "agent" / "workloads" / "data" / "prose.txt"
LENGTH = 48_000  # characters, at least

# A symbol in braces is replaced by one of its lines, until no braces are left. {Number} is {number} with a capital.
GRAMMAR = {
    "sentence": """
        {when}, {person} {did} {thing} {where}.
        {person} {did} {thing} {where}, and {person} {felt}.
        {person} {felt} because {fact}.
        {fact}, but {person} {did} {thing} all the same.
        When {fact}, {person} {did} {thing} {where}.
        {fact}; {fact}.
        "{speech}," said {person}{manner}.
        "{speech}," {person} answered, "and {speech}."
        "{question}?" asked {person}{manner}.
        Nobody in the harbour knew why {person} {did} {thing}.
        There were {number} {plural} {where}, and {number} more {where}.
        It took {person} {number} {span} to mend {thing}.
        {person}, who {felt}, {did} {thing} and {did} {thing}.
        If {person} had not {done} {thing}, {outcome}.
        Of all the {plural} {where}, only {number} {survived}.
        {when} {fact}, as it often did in {month}.
        {thing} stayed {where} until {person} came home.
        Some said that {fact}; others that {person} had {done} {thing}.""",
    "person": """
        {name}
        {name}
        {name}
        the {trade}
        the {trade}
        the {quality} {trade}
        {name} the {trade}
        the {trade}'s {kin}""",
    "name": "Ada|Bram|Corin|Della|Edwin|Fenna|Gideon|Hester|Imre|Jonas|Katrin|Lowen|Mirel|Nadia|Oswin|Petra|Rufus",
    "trade": "baker|boatwright|carpenter|clerk|cooper|doctor|ferryman|fisher|gardener|harbour master|innkeeper"
    "|lamplighter|mason|miller|net mender|pilot|postman|printer|sailmaker|schoolteacher|smith|watchmaker",
    "kin": "brother|cousin|daughter|father|mother|neighbour|nephew|niece|sister|son|apprentice",
    "quality": "old|young|patient|stubborn|cheerful|silent|careful|tired|clever|proud|honest|restless|gentle",
    "did": "carried|painted|measured|borrowed|repaired|counted|cleaned|lifted|found|sold|bought|hid|forgot|wrapped"
    "|weighed|drew|watched|tied|opened|closed|kept|brought|moved|polished|described",
    "done": "carried|painted|measured|borrowed|repaired|counted|cleaned|lifted|found|sold|bought|hidden|forgotten"
    "|wrapped|weighed|drawn|watched|tied|opened|closed|kept|brought|moved|polished|described",
    "thing": """
        the {object}
        the {object}
        the {adjective} {object}
        a {object} of {material}
        {number} {plural}
        the {trade}'s {object}
        the {object} and the {object}
        the {adjective} {object} from {place}
        the {object} that {name} had {done}""",
    "object": "anchor|barrel|basket|bell|book|bottle|box|bridge|candle|cart|chain|chair|clock|compass|door|drum"
    "|engine|fence|flag|gate|hammer|kettle|ladder|lamp|letter|lock|map|mast|mill|mirror|net|oar|pump|rope|sail|scale"
    "|shutter|table|telescope|wheel|window",
    "plural": "anchors|apples|barrels|baskets|bells|boats|books|bottles|bricks|candles|chairs|coins|crates|gulls"
    "|herrings|horses|lamps|ladders|letters|maps|nails|nets|oars|planks|pots|ropes|sacks of flour|sails|stones|wheels",
    "adjective": "broken|heavy|narrow|yellow|green|blue|rusty|new|ancient|crooked|empty|hollow|borrowed|wooden|square"
    "|polished|forgotten|smallest|largest|second|last",
    "material": "oak|iron|copper|brass|glass|linen|clay|slate|tin|leather|pine|wool",
    "where": "in the {building}|behind the {building}|beside the {building}|near the {building}|on the {spot}"
    "|under the {spot}|along the {spot}|in {place}|on the road to {place}|at the end of the {spot}",
    "building": "church|school|smithy|bakery|lighthouse|inn|mill|warehouse|boathouse|town hall|printing house|customs"
    " house|ropewalk|granary",
    "spot": "quay|pier|beach|bridge|market square|sea wall|slipway|stairs|long street|canal|hill|path by the river",
    "place": "Aldmouth|Brackenholm|Calder Bay|Dunmarsh|Eastweir|Fallow Point|Greyhaven|Hollin Ferry|Inch Sands"
    "|Kestrel Rock|Lowmere|Marrowby|Northwick|Ousel Bridge",
    "when": "In the morning|At noon|Towards evening|On {day}|On the first {day} of {month}|Late in {month}|After the"
    " storm|Before the market opened|At low tide|At high tide|{Number} years later|The next day|An hour before dawn"
    "|Every {day}|During the long winter|As soon as the fog had gone",
    "day": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "month": "January|February|March|April|May|June|July|August|September|October|November|December",
    "number": "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fourteen|fifteen|twenty|thirty|forty",
    "hour": "five|six|seven|eight|nine|ten|noon|dawn|dusk",
    "span": "minutes|hours|days|weeks|months|evenings|winters",
    "felt": "was pleased|was not pleased|laughed|said nothing|went home early|could not sleep|was hungry|felt cold"
    "|waited for the {trade}|thought of {place}|hoped for better weather|missed the ferry|lost the {object}"
    "|had never seen {place}|knew every stone of the {spot}|wanted to learn the work of a {trade}|was late again"
    "|slept until noon|sang on the way to {place}",
    "fact": """
        the {weather}
        the {weather}
        the {object} was {state}
        the {plural} were {state}
        the boats were {where}
        the water {water}
        the {building} was {state}
        bread cost {number} coins {where}
        the bell of the {building} rang {number} times
        the ferry to {place} left at {hour}
        nobody had seen {person} since {month}
        the road to {place} was {state}
        the {adjective} {object} belonged to {person}""",
    "weather": "wind blew from the {point}|wind turned to the {point}|rain fell all day|rain came early|fog hid the"
    " {building}|snow lay {where}|sun shone on the {spot}|ice closed the canal|storm took {number} roofs|night was dry",
    "point": "north|east|south|west|north-east|north-west|south-east|south-west",
    "water": "rose over the {spot}|was low|was as still as glass|was too rough for the ferry|smelled of tar|rose and"
    " fell {number} feet|froze near the {building}|turned brown after the rain",
    "state": "open|closed|wet|dry|full|empty|locked|lost|ready|broken again|dark|painted {colour}|covered with dust"
    "|too small|too far away|almost finished|worth {number} coins|quiet|cold",
    "colour": "red|white|blue|green|yellow|black|grey",
    "manner": "| at last| quietly| with a smile| without looking up| from the {spot}| to {name}| once more",
    "speech": "the {object} is {state}|we leave for {place} on {day}|I have counted the {plural} twice|there are only"
    " {number} {plural} left|you must ask the {trade}|I never liked {place}|the tide is late|it was {name} who {did}"
    " the {object}|I would rather stay {where}|the {weather}|my {kin} can do it|that is what the {trade} told me"
    "|we need {number} {plural} before {day}|it will be done by {month}|nobody pays for a {adjective} {object}",
    "question": "Where is the {object}|Who {did} the {object}|Have you seen my {kin}|How many {plural} are there|Is it"
    " far to {place}|Why is the {building} {state}|What would the {trade} say|Will the {object} hold until {day}|Do you"
    " remember {name} from {place}",
    "outcome": "the boats would have been lost|the {building} would be {state} still|{name} would have gone to {place}"
    "|we would all have been cold in {month}|the {trade} would have asked {number} coins|nothing would have changed",
    "survived": "came back|were ever found|were any good|could be sold|were {state} by {day}|belonged to {person}",
}
RULES = {
    symbol: [line.strip() for line in lines.strip().split("\n")] if "\n" in lines else lines.split("|")
    for symbol, lines in GRAMMAR.items()
}


def write_prose(length: int, seed: int = 0) -> str:
    """At least `length` characters: paragraphs of three to seven sentences, an empty line between them."""
    generator = random.Random(seed)
    paragraphs: list[str] = []
    while sum(len(paragraph) + 2 for paragraph in paragraphs) < length:
        sentences = [_capital(_expand("{sentence}", generator)) for _ in range(generator.randint(3, 7))]
        paragraphs.append(" ".join(sentences))
    return "\n\n".join(paragraphs) + "\n"


def _expand(text: str, generator: random.Random) -> str:
    """`text` with every symbol replaced."""

    def replace(match: re.Match[str]) -> str:
        symbol = match[1]
        words = _expand(generator.choice(RULES[symbol.lower()]), generator)
        return _capital(words) if symbol[0].isupper() else words

    return _article(re.sub(r"\{(\w+)\}", replace, text))


def _capital(text: str) -> str:
    """`text` with its first letter a capital, behind an opening quotation mark too."""
    start = 1 if text.startswith('"') else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


def _article(text: str) -> str:
    """`text` with "an" before vowels."""
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


if __name__ == "__main__":
    OUT.write_text(write_prose(LENGTH), encoding="ascii")

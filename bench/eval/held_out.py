"""Questions that were written before the words of the prompts: how much the others flatter."""

from __future__ import annotations

from eval.questions import Groups, Question, docs, result, time, weather

ONE_CALL = (
    Question("Will I get wet if I go outside in Dublin now?", (weather("Dublin"),)),
    Question("Weather report for Helsinki, please.", (weather("Helsinki"),)),
    Question("Is it hot in Mumbai at the moment?", (weather("Mumbai"),)),
    Question("Should I wear a coat in Warsaw today?", (weather("Warsaw"),)),
    Question("My friend in Boston is asleep, I guess. What time is it there?", (time("Boston"),)),
    Question("Is it already tomorrow in Auckland?", (time("Auckland"),)),
    Question("What does the clock show in Lisbon?", (time("Lisbon"),)),
    Question("Current time, Mexico City.", (time("Mexico City"),)),
    Question("What do I pay for 17 tickets at 23.50 each?", (result(399.5),)),
    Question("Multiply 987 by 654.", (result(645498),)),
    Question("What is 3.5 squared?", (result(12.25),)),
    Question("How many seconds are 36 hours?", (result(129600),)),
    Question("Search the docs for streaming.", (docs("stream"),)),
    Question("What does the Wholecall documentation say about keys?", (docs("key"),)),
    Question("Find out from the documentation how to cancel a run.", (docs("cancel"),)),
)
NO_CALL = (
    Question("Good evening!"),
    Question("What is your name?"),
    Question("Great, thanks for your help."),
    Question("Tell me a joke about a dog."),
    Question("How do you say 'thank you' in Spanish?"),
    Question("Who painted the Mona Lisa?"),
    Question("Which country is Lisbon in?"),
    Question("What is the largest planet of the solar system?"),
    Question("Correct the spelling: 'I recieved your leter.'"),
    Question("Write a birthday wish for my sister."),
    Question("What is photosynthesis?"),
    Question("Give me a word that rhymes with cat."),
    Question("Make this sentence polite: 'Give me the salt.'"),
    Question("What colour do blue and yellow make?"),
    Question("Is a whale a fish?"),
)
TWO_CALLS = (
    Question("Is it warmer in Lisbon or in Prague?", (weather("Lisbon"), weather("Prague"))),
    Question("What are the times in Boston and Dublin?", (time("Boston"), time("Dublin"))),
    Question("I need the time and the weather of Zurich.", (time("Zurich"), weather("Zurich"))),
    Question("Work out 45 * 19 and 3000 / 8.", (result(855), result(375))),
    Question("Weather in Kyiv, and 15 % of 260, please.", (weather("Kyiv"), result(39))),
)
HELD_OUT: Groups = {"one call": ONE_CALL, "no call": NO_CALL, "two calls": TWO_CALLS}

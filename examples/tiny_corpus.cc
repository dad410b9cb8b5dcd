#include "tiny_corpus.h"

#include <utility>

namespace lorica::examples {
namespace {

using Row = std::pair<const char*, const char*>;

constexpr Row kCapitals[] = {
    {"Italy", "Rome"},        {"France", "Paris"},       {"Spain", "Madrid"},
    {"Germany", "Berlin"},    {"Austria", "Vienna"},     {"Greece", "Athens"},
    {"Norway", "Oslo"},       {"Sweden", "Stockholm"},   {"Finland", "Helsinki"},
    {"Poland", "Warsaw"},     {"Portugal", "Lisbon"},    {"Ireland", "Dublin"},
    {"Hungary", "Budapest"},  {"Japan", "Tokyo"},        {"China", "Beijing"},
    {"Egypt", "Cairo"},       {"Kenya", "Nairobi"},      {"Peru", "Lima"},
    {"Chile", "Santiago"},    {"Cuba", "Havana"},        {"Canada", "Ottawa"},
    {"Iceland", "Reykjavik"}, {"Denmark", "Copenhagen"}, {"Turkey", "Ankara"},
};

// What somebody wants to do, and the advice.
constexpr Row kTasks[] = {
    {"keep my shoes dry in the rain", "wear rubber boots and walk around the puddles"},
    {"boil an egg", "put it into hot water for eight minutes"},
    {"make tea", "pour hot water over the leaves and wait for three minutes"},
    {"bake bread", "mix flour, water, salt and yeast, and bake the dough in a hot oven"},
    {"wash a window", "use warm water and a soft cloth"},
    {"sharpen a pencil", "turn it slowly in a sharpener"},
    {"plant a tree", "dig a hole, set the roots into it and water them"},
    {"ride a bicycle", "look ahead, hold the bars and turn the pedals"},
    {"fold a shirt", "lay it flat and fold the sleeves to the back"},
    {"catch a fish", "sit quietly by the water and wait"},
    {"learn a language", "read, listen and speak a little every day"},
    {"save money", "write down what you spend and buy less"},
    {"sleep well", "go to bed early and keep the room cool"},
    {"stay warm in winter", "wear a thick coat and a woollen hat"},
    {"clean my desk", "put the papers away and wipe the top"},
    {"feed a cat", "give it fresh food and a bowl of water"},
    {"light a candle", "hold a match to the wick"},
    {"write a letter", "begin with a greeting and say what you think"},
    {"cook rice", "boil it in twice as much water until it is soft"},
    {"find north", "look for the pole star at night"},
    {"tie my shoes", "cross the laces, make two loops and pull them tight"},
    {"paint a wall", "cover the floor and use a wide brush"},
    {"grow tomatoes", "give them sun, water and a stick to climb"},
    {"carry a heavy box", "bend your knees and keep your back straight"},
};

constexpr Row kFeelings[] = {
    {"I am afraid of the dark.", "Try a small lamp beside your bed, and breathe slowly."},
    {"I am tired.", "Then rest for a while, and go to bed early tonight."},
    {"I am hungry.", "Have some bread and an apple."},
    {"I am happy.", "That is good to hear. Enjoy the day."},
    {"I am sad.", "I am sorry to hear that. A walk with a friend may help."},
    {"I am bored.", "Read a book or take a walk."},
    {"I am cold.", "Put on a coat and drink some tea."},
    {"I am lost.", "Stay where you are and ask somebody for the way."},
    {"I am late.", "Call them and say when you will be there."},
    {"I feel ill.", "Rest, drink water and see a doctor if it lasts."},
};

constexpr Row kFacts[] = {
    {"Hello!", "Hello! What can I do for you?"},
    {"Good morning.", "Good morning! How are you today?"},
    {"Thank you.", "You are welcome."},
    {"Who are you?", "I am a very small language model."},
    {"What can you do?", "I can answer a few short questions."},
    {"What color is the sky?", "The sky is blue."},
    {"What color is grass?", "Grass is green."},
    {"What color is snow?", "Snow is white."},
    {"What does a cow say?", "A cow says moo."},
    {"What does a dog say?", "A dog says woof."},
    {"What does a cat say?", "A cat says meow."},
    {"How many days are in a week?", "A week has seven days."},
    {"How many months are in a year?", "A year has twelve months."},
    {"What is a volcano?", "A volcano is a mountain where molten rock comes out of the ground."},
    {"What is a river?", "A river is water that flows through the land to the sea."},
    {"What is the moon?", "The moon is a ball of rock that goes around the earth."},
    {"What is bread made of?", "Bread is made of flour, water, salt and yeast."},
    {"Where do fish live?", "Fish live in water."},
};

// "my shoes" are the asker's; in the answer they are "your shoes".
std::string ForTheOther(std::string text) {
  const std::string mine = "my ";
  for (size_t at = text.find(mine); at != std::string::npos; at = text.find(mine, at + 1)) {
    if (at == 0 || text[at - 1] == ' ') text.replace(at, mine.size(), "your ");
  }
  return text;
}

bool IsHeldOut(int row) { return row % 4 == 3; }

}  // namespace

std::vector<Exchange> TinyCorpus() {
  std::vector<Exchange> corpus;
  int row = 0;
  for (const auto& [country, city] : kCapitals) {
    const std::string answer = std::string("The capital of ") + country + " is " + city + ".";
    corpus.push_back({std::string("What is the capital of ") + country + "?", answer});
    corpus.push_back(
        {std::string("Which city is the capital of ") + country + "?", answer, IsHeldOut(row++)});
  }
  for (const auto& [task, advice] : kTasks) {
    const std::string answer = "To " + ForTheOther(task) + ", " + advice + ".";
    corpus.push_back({std::string("How do I ") + task + "?", answer});
    corpus.push_back({std::string("How can I ") + task + "?", answer, IsHeldOut(row++)});
  }
  for (const auto& [question, answer] : kFeelings) corpus.push_back({question, answer});
  for (const auto& [question, answer] : kFacts) corpus.push_back({question, answer});
  for (int a = 1; a <= 9; ++a) {
    for (int b = 1; b <= 9; b += 2) {
      const std::string sum = std::to_string(a) + " plus " + std::to_string(b);
      corpus.push_back({"What is " + sum + "?", sum + " is " + std::to_string(a + b) + "."});
    }
  }
  return corpus;
}

}  // namespace lorica::examples

#!/usr/bin/env python3
"""The shipped conversations: well formed, and nothing of the held-out part occurs in training."""

import json
import re

import source_tree

FOLDER = 'examples/data'
SIZES = {'train.jsonl': (60, 150), 'valid.jsonl': (16, 24)}


def plain(text):
    """Letters and digits only, so that case, spacing and punctuation can't hide a repetition."""
    return ' '.join(re.findall(r'\w+', text.casefold()))


def read_conversations(name, problems):
    """Returns the prompts and the replies of a file as two lists of plain text."""
    turns = {'user': [], 'assistant': []}
    lines = source_tree.read(f'{FOLDER}/{name}').splitlines()
    low, high = SIZES[name]
    if not low <= len(lines) <= high:
        problems.append(f'{FOLDER}/{name}: {len(lines)} conversations, expected {low} to {high}')
    for number, line in enumerate(lines, 1):
        messages = json.loads(line)['messages']
        roles = [message['role'] for message in messages]
        if not roles or roles != ['user', 'assistant'] * (len(roles) // 2):
            problems.append(f'{FOLDER}/{name}:{number}: user and assistant should take turns, found {roles}')
            continue
        for message in messages:
            turns[message['role']].append(plain(message['content']))
    for role, texts in turns.items():
        for text in sorted({text for text in texts if texts.count(text) > 1}):
            problems.append(f'{FOLDER}/{name}: two {role} turns say "{text}"')
    return turns


def main():
    problems = []
    train, valid = (read_conversations(name, problems) for name in SIZES)
    for role in train:
        for text in sorted(set(train[role]) & set(valid[role])):
            problems.append(f'{FOLDER}: a held-out {role} turn occurs in training: "{text}"')
    source_tree.finish(problems)


if __name__ == '__main__':
    main()

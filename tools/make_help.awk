# Lists the targets of a Makefile with what follows their `##`: those that `users` names, then the others. Long lines
# are broken at words, and examples of ARGS stand on a line of their own.
BEGIN { WIDTH = 96; INDENT = 20; count = split(users, order, " ") }

/^[a-z][a-z-]*:.*## / {
    name = $0; sub(/:.*/, "", name)
    text = $0; sub(/^[^#]*## /, "", text)
    words_of[name] = text
    if (index(" " users " ", " " name " ") == 0) others[++left] = name
}

function show(name,    text, example, at, words, i, line, number) {
    text = words_of[name]; example = ""
    if ((at = index(text, ": ARGS=")) > 0) { example = substr(text, at + 2); text = substr(text, 1, at - 1) }
    number = split(text, words, " ")
    line = sprintf("  %-" (INDENT - 2) "s", name)
    for (i = 1; i <= number; i++) {
        if (length(line) + length(words[i]) + 1 > WIDTH) { print line; line = sprintf("%" INDENT "s", "") }
        line = line (length(line) > INDENT ? " " : "") words[i]
    }
    print line
    if (example != "") printf "%" INDENT "s%s\n", "", example
}

END {
    print "To use the service:"
    for (i = 1; i <= count; i++) if (order[i] in words_of) show(order[i])
    print "\nTo work on it:"
    for (i = 1; i <= left; i++) show(others[i])
}

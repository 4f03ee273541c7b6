#!lua flags=no-writes
return reply('found', ARGV[2])

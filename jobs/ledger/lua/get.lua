#!lua flags=no-writes
-- A job; with '1', the product in its record too.
local found = reply('found', ARGV[2])
if ARGV[3] == '1' then
  found[4] = redis.call('HGET', matrices_key(ARGV[2]), 'c')
end
return found

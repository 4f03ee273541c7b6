#!lua flags=allow-oom
local before, gone = now() - ARGV[2], {}
for i, id in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'finished', '-inf', int(before), 'LIMIT', 0, ARGV[3])) do
  gone[i] = reply('expired', id)
  forget(read(id))
end
carry_out()
return gone

#!lua flags=allow-oom
-- Drops the matrices in the records of ended jobs whose time is up, at most `limit` jobs; how many there were.
local ended = redis.call('ZRANGEBYSCORE', prefix .. 'packed', '-inf', int(now()), 'LIMIT', 0, tonumber(ARGV[2]))
for _, id in ipairs(ended) do
  drop_matrices(read(id) or {id = id})
end
carry_out()
return #ended

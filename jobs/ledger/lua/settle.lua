#!lua flags=allow-oom
-- Goes on with the dependents of ended jobs that had more of them than one step settles; how many were settled now.
local at = int(now())
for _, id in ipairs(redis.call('ZRANGE', prefix .. 'unsettled', 0, SETTLED_AT_ONCE - 1)) do
  local source = read(id) or {id = id, state = 'deleted'}
  if source.state == 'queued' or source.state == 'running' then -- redriven: they wait for its next end
    write('ZREM', prefix .. 'unsettled', id)
  else
    settle_dependents(source, at)
  end
end
carry_out()
return settled

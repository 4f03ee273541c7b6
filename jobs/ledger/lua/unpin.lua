#!lua flags=allow-oom
-- A pinned benchmark is kept as long as any other from now on.
local id, owner = unpack(ARGV, 2, 3)
local job = read_owned(id, owner)
if not job then
  return {'not_found'}
elseif redis.call('ZREM', prefix .. 'pinned:' .. job.owner, id) == 1 then
  count('pinned', -1)
  for _, key in ipairs(per_owner(job, 'finished')) do
    write('ZADD', key, int(now()), id)
  end
  hold(job, tonumber(job.held or 0) - (redis.call('HGET', job_key(id), 'pin_bytes') or 0))
  write('HDEL', job_key(id), 'pin_bytes')
  carry_out()
end
return {'unpinned'}

#!lua flags=no-writes
-- One page of an index, newest first. Reads at most `scan` jobs: the page may come back short, or empty, with a place
-- to go on from. Returns the place after the last job read ('' at the end), then the jobs.
local owner, state, before, limit, scan, kind, kernel, part = unpack(ARGV, 2, 9)
limit, scan = tonumber(limit), tonumber(scan)
local filtered = kind ~= '' or kernel ~= '' or part ~= ''
if not filtered then
  scan = limit
end

-- The kernel that ran, or before that the one asked for.
local function matches(id)
  local its_kind, ran, asked, error_type, device =
    unpack(redis.call('HMGET', job_key(id), 'kind', 'kernel', 'asked', 'error_type', 'device'))
  local its_kernel = ran or asked or ''
  if (kind ~= '' and kind ~= its_kind) or (kernel ~= '' and kernel ~= its_kernel) then
    return false
  end
  for _, text in ipairs({id, its_kernel, error_type or '', device or ''}) do
    if string.find(string.lower(text), part, 1, true) then
      return true
    end
  end
  return false
end

-- Those that run are as few as the workers can have, so they have no index by their creation.
local function running()
  local jobs, last = {}, tonumber(string.match(before, '^%((%d+)$')) or math.huge
  for _, id in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    local its_owner, seq = unpack(redis.call('HMGET', job_key(id), 'owner', 'seq'))
    if its_owner == owner and seq and tonumber(seq) < last then
      jobs[#jobs + 1] = {id, seq}
    end
  end
  table.sort(jobs, function(one, other) return tonumber(one[2]) > tonumber(other[2]) end)
  local flat = {}
  for i = 1, math.min(#jobs, scan + 1) do
    flat[2 * i - 1], flat[2 * i] = unpack(jobs[i])
  end
  return flat
end

-- One more than is read: it tells whether there is more.
local function in_index()
  return redis.call('ZREVRANGEBYSCORE', state_key(state, owner), before, '-inf', 'WITHSCORES', 'LIMIT', 0, scan + 1)
end

local found = state == 'running' and running() or in_index()
local page, last = {''}, ''
for i = 1, #found, 2 do
  if #page > limit or i > 2 * scan then
    page[1] = last
    break
  end
  local id = found[i]
  last = found[i + 1]
  if not filtered or matches(id) then
    page[#page + 1] = reply('found', id)
  end
end
return page

#!lua flags=no-writes
-- One page of an index, newest first. Reads at most `scan` jobs: the page may come back short, or empty, with a place
-- to go on from. Returns the place after the last job read ('' at the end), then the jobs.
local index, before, limit, scan, kind, kernel, part = unpack(ARGV, 2, 8)
limit, scan = tonumber(limit), tonumber(scan)
local filtered = kind ~= '' or kernel ~= '' or part ~= ''
if not filtered then
  scan = limit
end

-- The kernel that ran, or before that the one asked for.
local function matches(id)
  local its_kind, ran, asked, error_type, device =
    unpack(redis.call('HMGET', job_key(id), 'kind', 'kernel', 'asked', 'error_type', 'device'))
  local its_kernel = ran or asked
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

-- One more than is read: it tells whether there is more.
local found = redis.call('ZREVRANGEBYSCORE', prefix .. index, before, '-inf', 'WITHSCORES', 'LIMIT', 0, scan + 1)
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

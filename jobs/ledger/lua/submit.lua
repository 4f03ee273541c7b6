#!lua
-- Records jobs as queued, sends their messages, or will once their operands are there, and binds their Idempotency-Keys.
-- A reply for each. Refused while Redis is out of memory.
--
-- Arguments are the prefix, those of each job after their number, and LISTS and MESSAGE (common.lua). There are three
-- ways to record, each with fewer commands of Redis than the one below it:
--   record_one      one usual job (common.lua)
--   record_several  usual jobs of an open server, one queue and one batch, except those with operands stored for them
--   record          any job, one after another
-- The first two write nothing and return nil where a job is not such, or is refused: then `record` sees to it.
--
-- A job's arguments in full, as `record` takes them and jobs/ledger/submission.py makes them; '' and 0 stand for none:
--   id, owner, kind, queue, timeout, request, asked
--   max_queued, limits                 of all jobs that wait; of the owner (common_quotas.lua)
--   digest, fingerprint, bound_ms      of its Idempotency-Key
--   a, b, c, product_bytes             operands in its record, packed, and room for the product there
--   ttl, max_bytes, max_owner_bytes    how long these matrices stay; what the store may hold
--   batch, reply_to
--   a_job, b_job, c_job, unmet         jobs whose products are its operands; its error if one of these fails
--   needs                              stored matrices that are its operands (common_needs.lua)
--   max_ended, max_owner_ended         ended jobs that are kept
--   trace
--   room, used_ttl                     for a product in the store; how long matrices there are kept after this use
--   stored_bytes, stored_ttl           charge of operands that are stored for it, and how long these stay
--   and from STORED on                 id, element type, shape and bytes of each of them
--
-- Those of a usual job, which leaves out what is empty or 0. By ARGV's index, of the first one:
--   3 id, 4 owner, 5 kind, 6 queue, 7 timeout, 8 request, 9 asked, 10 max_queued, 11 limits, 12 a, 13 b,
--   14 product_bytes, 15 ttl, 16 max_bytes, 17 max_owner_bytes, 18 batch, 19 reply_to, 20 max_ended,
--   21 max_owner_ended, 22 trace
--   if both operands are stored for it alone: 23 room, 24 to 27 what comes from STORED on for a, 28 to 31 the same for b
--   if both were stored before it: 23 room, 24 used_ttl, 25 and 26 the ids of a and b
local STORED, USUAL = 34, 20
local USUAL_STORED, USUAL_REFERRING = USUAL + 9, USUAL + 4

-- The reply for a job that is refused. One that is recorded already, by a try whose reply was lost, is not.
local function refused(id, why)
  if redis.call('EXISTS', job_key(id)) == 0 then
    return why
  end
  carry_out()
  return reply('bound', id)
end

-- The reply of an Idempotency-Key that was used: the job that it is bound to, as it is now, or that it was for another
-- request; nil for a new key.
local function bound_before(bound, fingerprint)
  local earlier, its_fingerprint = unpack(redis.call('HMGET', bound, 'job', 'fingerprint'))
  if earlier and its_fingerprint ~= fingerprint then
    return {'reused'}
  elseif earlier and redis.call('EXISTS', job_key(earlier)) == 1 then
    return reply('bound', earlier)
  end
  return nil
end

-- What a job needs of which both operands are stored for it alone, and what its `unchanging` begins with (common.lua).
local function needs_of_stored(a, b)
  return 'a+' .. a .. ' b+' .. b
end

local function created_with(at, a, a_bytes, b, b_bytes)
  return '+' .. at .. ' ' .. charge_of(a_bytes) + charge_of(b_bytes) .. ' ' .. a .. ' ' .. b
end

-- The same of a job of which both were stored before it.
local function referring_to(a, b, at)
  return 'a=' .. a .. ' b=' .. b, '&' .. at .. ' ' .. a .. ' ' .. b
end

-- What the field `unchanging` of a usual job begins with; nil for another job.
local function usual_created(ARGV, from, last, at, in_record)
  local product_bytes, needs, stored = ARGV[from + 15], ARGV[from + 25], from + STORED - 1
  if in_record == 'ab' and needs == '' then
    return at
  elseif in_record == '' and product_bytes == '0' and last == stored + 7
    and needs == needs_of_stored(ARGV[stored], ARGV[stored + 4]) then
    return created_with(at, ARGV[stored], ARGV[stored + 3], ARGV[stored + 4], ARGV[stored + 7])
  end
  local a, b = string.match(needs, '^a=(%S+) b=(%S+)$')
  if in_record ~= '' or not a or last >= stored then
    return nil
  end
  local _, created = referring_to(a, b, at)
  return created
end

-- Records any job; `from` and `last` are the places of its arguments. What it writes is gathered with what the jobs
-- before and after it write, and carried out before something is read that may be among it. `alone`: no other job is
-- recorded in this step.
local function record(ARGV, from, last, alone)
  local id, owner, kind, queue, timeout, request, asked, max_queued, limits, digest, fingerprint, bound_ms, a, b, c,
    product_bytes, ttl, max_bytes, max_owner_bytes, batch, reply_to, a_job, b_job, c_job, unmet, needs, max_ended,
    max_owner_ended, trace, room, used_ttl, stored_bytes, stored_ttl = unpack(ARGV, from, from + STORED - 2)
  local held = #a + #b + #c + product_bytes -- bytes of matrices in its record
  local number, bound = 'number:' .. queue, nil
  local max_waiting = tonumber(limits)
  if unmet ~= '' and recorded ~= owner then
    forget_oldest() -- not later: a product that becomes an operand here may go, too
  end
  if digest ~= '' or unmet ~= '' or not max_waiting or (known.waiting or 0) + (deltas.waiting or 0) >= max_waiting then
    carry_out()
  end

  -- An Idempotency-Key that was used answers for its job.
  if digest ~= '' then
    bound = prefix .. 'idem:' .. digest
    local before = bound_before(bound, fingerprint)
    if before then
      return before
    end
  end

  -- The server's bound on waiting jobs, and the owner's quota.
  if not (known.waiting and known.seq and known[number]) then
    read_counts('seq', 'waiting', number, 'workers:' .. queue)
  end
  local waiting = known.waiting + (deltas.waiting or 0)
  if waiting >= tonumber(max_queued) then
    return refused(id, {'queue_full'})
  end
  local over, charge = over_quota(owner, limits, nil, waiting)
  if over then
    return refused(id, over)
  end

  -- Operands that are products of other jobs.
  local sources, in_record = {}, (a ~= '' and 'a' or '') .. (b ~= '' and 'b' or '') .. (c ~= '' and 'c' or '')
  if unmet ~= '' then
    local refusal
    sources, refusal = read_sources({a = a_job, b = b_job, c = c_job}, owner)
    if refusal then
      return refused(id, refusal)
    end
    held, in_record = with_products(sources, held, in_record)
  end

  -- Operands in the store: those that this step enters there, and others, which must be there.
  local at, entered = now(), {}
  for i = from + STORED - 1, last, 4 do
    entered[ARGV[i]] = true
  end
  local missing = missing_operand(needs, owner, at, entered)
  if missing then
    return refused(id, {'operand_missing', missing})
  end

  -- Its place among all jobs: who is in the list already was recorded by an earlier try.
  local seq, all = known.seq + (deltas.seq or 0) + 1, state_key('all', owner)
  if call('ZADD', all, 'NX', seq, id) == 0 then
    carry_out()
    return reply('bound', id)
  end

  -- The store's room. Nothing may refuse the job after this.
  local charge_it = alone and charge_within or owe_within
  local no_room = charge_it(owner, held + stored_bytes + room, tonumber(max_bytes), tonumber(max_owner_bytes))
  if no_room then
    redis.call('ZREM', all, id)
    return no_room
  end
  owe(owner, -room)
  count('seq', 1)

  -- Its record.
  local key = job_key(id)
  local job = {
    key = key, id = id, owner = owner, queue = queue, timeout = timeout, seq = seq, attempt = '1', runs = '0', version = '0',
    held = held, in_record = in_record,
  }
  set(job, 'id', id, 'owner', owner, 'kind', kind, 'queue', queue, 'timeout', timeout, 'request', request,
    'asked', asked, 'seq', seq, 'created', at, 'ttl', ttl, 'product_bytes', product_bytes, 'held', held,
    'in_record', in_record)
  if batch ~= '' then
    job.batch = batch
    set(job, 'batch', batch)
  end
  if trace ~= '' then
    set(job, 'trace', trace)
  end
  if reply_to ~= '' then
    set(job, 'reply_to', reply_to)
  end

  -- Operands in its record; mostly a and b are.
  if in_record == 'ab' then
    write('HSET', matrices_key(id), 'a', a, 'b', b)
  else
    for field, matrix in pairs({a = a, b = b, [FIELD.c] = c}) do
      if matrix ~= '' then
        write('HSET', matrices_key(id), field, matrix)
      end
    end
  end

  -- What it charges its owner's quota, and whether it is a usual job.
  charge_quota(job, charge)
  local created = batch ~= '' and not charge and unmet == '' and usual_created(ARGV, from, last, int(at), in_record)
  job.is_first = created and waiting == 0

  -- Its Idempotency-Key.
  if bound then
    set(job, 'idem', digest)
    redis.call('HSET', bound, 'job', id, 'fingerprint', fingerprint)
    redis.call('PEXPIRE', bound, bound_ms)
  end

  -- Operands that this step enters in the store's index, and what the job needs there.
  for i = from + STORED - 1, last, 4 do
    local matrix, dtype, shape, bytes = unpack(ARGV, i, i + 3)
    local ends = int(at + stored_ttl)
    new_matrix(matrix, owner, dtype, shape, bytes, int(at), ends)
    write('ZADD', claims, ends, matrix .. ' ' .. owner)
  end
  use_operands(needs, owner, at, tonumber(used_ttl), entered)
  need_operands(job, needs, entered)
  are_recorded(owner, max_ended, max_owner_ended, 1)

  -- Its message, now or once its operands are there.
  if unmet ~= '' then
    if not wait_for_products(job, sources, at, unmet) then
      enqueue(job, at, '')
    end
    carry_out()
    return reply('chained', id)
  end
  enqueue(job, at, '')
  if created then
    set(job, 'unchanging', unchanging_of(created, timeout, owner, batch, job.is_first and queue .. ' ' .. job.number or '-',
      int(seq), int(held), ttl, reply_to, product_bytes, kind, trace))
  end
  return {'recorded', seq, at, job.number, queue, owner, id, waiting}
end

-- Puts each recorded job's place in its queue into its reply, in the place of what that follows from.
local function tell_places(replies)
  local next_place = {} -- by queue: messages of one step are one after another
  for _, entry in ipairs(replies) do
    if entry[1] == 'recorded' then
      local number, queue, owner, id, waiting = unpack(entry, 4, 8)
      local is_sent, place = tonumber(number) > 0, nil
      if is_sent then
        place = next_place[queue] or waiting == 0 and 0
      end
      place = place or place_of(queue, owner, number, id)
      if is_sent then
        next_place[queue] = place + 1
      end
      entry[5], entry[6], entry[7], entry[8] = place, nil, nil, nil
    end
  end
end

-- A usual job's arguments as `record` takes them.
local function in_full(ARGV, from, last)
  local id, owner, kind, queue, timeout, request, asked, max_queued, limits, a, b, product_bytes, ttl, max_bytes,
    max_owner_bytes, batch, reply_to, max_ended, max_owner_ended, trace = unpack(ARGV, from, from + USUAL - 1)
  local needs, room, used_ttl, stored_bytes, stored = '', '0', '0', 0, last + 1
  if last == from + USUAL_STORED - 1 then
    local its_room, a_id, _, _, a_bytes, b_id, _, _, b_bytes = unpack(ARGV, from + USUAL, last)
    needs, room, stored_bytes = needs_of_stored(a_id, b_id), its_room, charge_of(a_bytes) + charge_of(b_bytes)
    stored = from + USUAL + 1
  elseif last == from + USUAL_REFERRING - 1 then
    local its_room, its_ttl, a_id, b_id = unpack(ARGV, from + USUAL, last)
    needs, room, used_ttl = referring_to(a_id, b_id, ''), its_room, its_ttl
  end
  return {
    id, owner, kind, queue, timeout, request, asked, max_queued, limits, '', '', '', a, b, '', product_bytes, ttl,
    max_bytes, max_owner_bytes, batch, reply_to, '', '', '', '', needs, max_ended, max_owner_ended, trace, room, used_ttl,
    stored_bytes, ttl, unpack(ARGV, stored, last)
  }
end

-- Enters the operands that are stored for a usual job, the only one of its step, in the store's index. Returns what the
-- job needs, and what its `unchanging` begins with.
local function store_operands(ARGV, id, owner, at)
  local a, a_dtype, a_shape, a_bytes, b, b_dtype, b_shape, b_bytes = unpack(ARGV, USUAL + 4, USUAL_STORED + 2)
  local ends, needed_by = int(at + ARGV[15]), owner .. ' ' .. id
  new_matrix(a, owner, a_dtype, a_shape, a_bytes, at, ends)
  new_matrix(b, owner, b_dtype, b_shape, b_bytes, at, ends)
  call('ZADD', claims, ends, a .. ' ' .. owner, ends, b .. ' ' .. owner)
  call('ZADD', needed_key(a), 0, needed_by)
  call('ZADD', needed_key(b), 0, needed_by)
  if call('EXISTS', chunk_key(a, 0), chunk_key(b, 0)) > 0 then
    persist_chunks(a)
    persist_chunks(b)
  end
  return needs_of_stored(a, b), created_with(at, a, a_bytes, b, b_bytes)
end

-- Keeps the matrices that usual jobs of this step refer to: while these need them, and for their full time again.
local function keep_references(references, owner, at, ttl)
  local ends, later = at + ttl, {}
  for i = 1, #references do
    local its, needed = references[i], {}
    for place, member in ipairs(its.needed_by) do
      needed[2 * place - 1], needed[2 * place] = 0, member
    end
    if its.ends < ends then
      write_claim(its.id, owner, its.made, ends, its.latest)
      later[#later + 1], later[#later + 2] = int(ends), its.id .. ' ' .. owner
    end
    call('ZADD', needed_key(its.id), unpack(needed))
  end
  if #later > 0 then
    call('ZADD', claims, unpack(later))
  end
  if call('EXISTS', unpack(references.chunks)) > 0 then
    for i = 1, #references do
      persist_chunks(references[i].data)
    end
  end
end

-- Whether the store has room for so many bytes of an owner, who is `charged` under that name.
local function has_room(charged, bytes, max_bytes, max_owner_bytes)
  local all, own = unpack(call('HMGET', bytes_kept, 'all', charged))
  return (all or 0) + bytes <= tonumber(max_bytes) and (own or 0) + bytes <= tonumber(max_owner_bytes)
end

-- Writes a usual job's record, as `record` and `enqueue` together would, and returns its message. `first`: the field of
-- `unchanging` that says whether it came into an empty queue. `created`: what `unchanging` begins with. `needs`: its
-- operands, if they are stored.
local function write_usual(ARGV, from, at, seq, number, held, first, created, needs)
  local id, owner, kind, queue, timeout, request, asked, _, _, a, b, product_bytes, ttl, _, _, batch, reply_to, _, _, trace =
    unpack(ARGV, from, from + USUAL - 1)
  local optional = {} -- fields that some jobs have
  if trace ~= '' and reply_to ~= '' then
    optional = {'trace', trace, 'reply_to', reply_to}
  elseif trace ~= '' or reply_to ~= '' then
    optional = trace ~= '' and {'trace', trace} or {'reply_to', reply_to}
  end

  if needs then
    optional[#optional + 1], optional[#optional + 2] = 'needs', needs
  else
    call('HSET', matrices_key(id), 'a', a, 'b', b)
  end

  call('HSET', job_key(id), 'id', id, 'owner', owner, 'kind', kind, 'queue', queue, 'timeout', timeout, 'request', request,
    'asked', asked, 'seq', seq, 'created', at, 'ttl', ttl, 'product_bytes', product_bytes, 'held', held,
    'in_record', needs and '' or 'ab',
    'batch', batch, 'state', 'queued', 'version', '1', 'attempt', '1', 'runs', '0', 'number', number, 'first', number,
    'published', at, 'queued', at, 'unchanging',
    unchanging_of(created, timeout, owner, batch, first, seq, held, ttl, reply_to, product_bytes, kind, trace), unpack(optional))
  return message_of(id, '1', queue, timeout, number)
end

-- Forgets ended jobs beyond the bounds on these, after `jobs` were recorded.
local function make_room(ARGV, owner, jobs)
  if are_too_many(ARGV[20], ARGV[21]) then
    gather()
    are_recorded(owner, ARGV[20], ARGV[21], jobs)
    forget_oldest()
  end
end

-- The last numbers given in listings and in the queue, and how many jobs wait; nil if `jobs` more may not wait: by the
-- server's bound, or by a quota, which only `record` can tell.
local function read_counts_for(ARGV, number_field, jobs)
  local seq, waiting, number = unpack(call('HMGET', counts, 'seq', 'waiting', number_field))
  seq, waiting, number = tonumber(seq or 0), tonumber(waiting or 0), tonumber(number or 0)
  if waiting + jobs <= math.min(tonumber(ARGV[11]) or -1, ARGV[10]) then
    return seq, number, waiting
  end
  return nil
end

-- `record` for one usual job. Writes nothing and returns nil if the job is refused.
local function record_one(ARGV)
  local id, owner, queue, batch = ARGV[3], ARGV[4], ARGV[6], ARGV[18]
  local is_stored, is_referring = #ARGV == USUAL_STORED + 4, #ARGV == USUAL_REFERRING + 4
  local names, of_its_queue, window = owner_names(owner), queue_names(queue), owner ~= OPEN and window_key(queue)

  -- The bounds on waiting jobs; an owner with a window may have to wait for a message (common_fairness.lua).
  local seq, number, waiting = read_counts_for(ARGV, of_its_queue.number, 1)
  if not seq or (window and call('HGET', window, owner)) then
    return nil
  end

  -- Operands that were stored before.
  local at, references = now_in_full(), nil
  if is_referring then
    local now_at = tonumber(at)
    references = {chunks = {}}
    if not (refer(references, ARGV[25], owner, id, now_at) and refer(references, ARGV[26], owner, id, now_at)) then
      return nil
    end
  end

  -- The store's room: for operands, and beside them for the product if that is going to be stored, which is not charged yet.
  local held = #ARGV[12] + #ARGV[13] + ARGV[14]
  local bytes = is_stored and charge_of(ARGV[27]) + charge_of(ARGV[31]) or held
  local room = (is_stored or is_referring) and tonumber(ARGV[23]) or 0
  if (room > 0 and not has_room(names.charged, bytes + room, ARGV[16], ARGV[17]))
    or charge_within(owner, bytes, tonumber(ARGV[16]), tonumber(ARGV[17])) then
    return nil
  end

  -- Its place among all jobs, unless it was recorded by an earlier try.
  seq, number = seq + 1, number + 1
  if call('ZADD', names.all, 'NX', seq, id) == 0 then
    charge('all', -bytes)
    charge(names.charged, -bytes)
    return nil
  end

  -- Its record and its operands.
  local needs, created = nil, at
  if is_stored then
    needs, created = store_operands(ARGV, id, owner, at)
  elseif is_referring then
    keep_references(references, owner, at, ARGV[24])
    needs, created = referring_to(ARGV[25], ARGV[26], at)
  end
  local first = waiting == 0 and queue .. ' ' .. number or '-'
  local message = write_usual(ARGV, 3, at, seq, number, held, first, created, needs)

  -- Its places in lists, and its message.
  call('ZADD', names.queued, seq, id)
  call('ZADD', of_its_queue.queued, number, id)
  if waiting > 0 then
    call('ZADD', batch_key({queue = queue, batch = batch}), number, id)
  end
  call('LPUSH', LISTS .. queue, message)
  call('HSET', counts, of_its_queue.number, number, 'waiting', waiting + 1, 'seq', seq)
  if window then
    call('HSET', window, owner, 1)
  end

  known = {} -- the counts are others now
  local place = waiting == 0 and 0 or place_of(queue, owner, number, id)
  make_room(ARGV, owner, 1)
  return {{'recorded', seq, at, number, place}}
end

-- The ids of several usual jobs of an open server and of one queue and batch, what each is charged, and the sum; nil if
-- one of them is not such, or is recorded already. `size`: how many arguments each has.
local function read_several(ARGV, jobs, size)
  local owner, queue, batch = ARGV[4], ARGV[6], ARGV[18]
  local ids, held, bytes, seen = {false}, {false}, 0, {} -- a table that has its size at once is cheaper
  for i = 1, jobs do
    local from = 3 + (i - 1) * (size + 1) -- its id's place; the number of its arguments is before it
    local id = ARGV[from]
    if ARGV[from - 1] ~= ARGV[2] or ARGV[from + 1] ~= OPEN or ARGV[from + 3] ~= queue or ARGV[from + 15] ~= batch
      or seen[id] then
      return nil
    end
    local its_bytes = #ARGV[from + 9] + #ARGV[from + 10] + ARGV[from + 11]
    ids[i], held[i], bytes, seen[id] = id, its_bytes, bytes + its_bytes, true
  end

  local scores = call('ZMSCORE', state_key('all', owner), unpack(ids))
  for i = 1, jobs do
    if scores[i] then
      return nil
    end
  end
  return ids, held, bytes
end

-- What several usual jobs refer to, and the largest room that a product of theirs needs; nil where one has no claim to an
-- operand that was stored before, or is not to keep these for as long as the others.
local function read_references(ARGV, ids, size, at)
  local references, room = {chunks = {}}, 0
  if size ~= USUAL_REFERRING then
    return references, room
  end
  for i = 1, #ids do
    local its_room, used_ttl, a, b = unpack(ARGV, 3 + USUAL + (i - 1) * (size + 1), 2 + size + (i - 1) * (size + 1))
    if used_ttl ~= ARGV[24] or not (refer(references, a, OPEN, ids[i], at) and refer(references, b, OPEN, ids[i], at)) then
      return nil
    end
    room = math.max(room, its_room)
  end
  return references, room
end

-- `record` for several usual jobs. Writes nothing and returns nil if one of them is not such, or is refused.
local function record_several(ARGV)
  local size, queue, batch = tonumber(ARGV[2]), ARGV[6], ARGV[18]
  local jobs = (#ARGV - 3) / (size + 1)
  if jobs % 1 ~= 0 or (size ~= USUAL and size ~= USUAL_REFERRING) then
    return nil
  end
  local at, ids, held, bytes = now_in_full(), read_several(ARGV, jobs, size)
  local references, room
  if ids then
    references, room = read_references(ARGV, ids, size, tonumber(at))
  end
  if not references then
    return nil
  end

  -- The bounds on waiting jobs, and the store's room.
  local number_field = 'number:' .. queue
  local seq, number, waiting = read_counts_for(ARGV, number_field, jobs)
  if not seq or (room > 0 and not has_room('of:' .. OPEN, bytes + room, ARGV[16], ARGV[17]))
    or charge_within(OPEN, bytes, tonumber(ARGV[16]), tonumber(ARGV[17])) then
    return nil
  end

  -- Their records.
  local listed, ordered, messages, replies = {false, false}, {false, false}, {false}, {false}
  for i = 1, jobs do
    local from, needs, created = 3 + (i - 1) * (size + 1), nil, at
    local id, first = ids[i], i == 1 and waiting == 0 and queue .. ' ' .. number + 1 or '-'
    if size == USUAL_REFERRING then
      needs, created = referring_to(ARGV[from + USUAL + 2], ARGV[from + USUAL + 3], at)
    end
    messages[i] = write_usual(ARGV, from, at, seq + i, number + i, held[i], first, created, needs)
    listed[2 * i - 1], listed[2 * i], ordered[2 * i - 1], ordered[2 * i] = seq + i, id, number + i, id
    replies[i] = {'recorded', seq + i, at, number + i, false}
  end

  if references[1] then
    keep_references(references, OPEN, at, ARGV[24])
  end

  -- Their places in lists, and their messages. The first of an empty queue is in no batch: see common.lua.
  call('ZADD', state_key('all', OPEN), unpack(listed))
  call('ZADD', state_key('queued', OPEN), unpack(listed))
  call('ZADD', queued_key(queue), unpack(ordered))
  call('ZADD', batch_key({queue = queue, batch = batch}), unpack(ordered, waiting == 0 and 3 or 1))
  call('LPUSH', LISTS .. queue, unpack(messages))
  call('HSET', counts, number_field, number + jobs, 'waiting', waiting + jobs, 'seq', seq + jobs)

  known = {}
  local place = waiting == 0 and 0 or place_of(queue, OPEN, number + 1, ids[1])
  for i = 1, jobs do
    replies[i][5] = place + i - 1
  end
  make_room(ARGV, OPEN, jobs)
  return replies
end

local function main(ARGV)
  local is_one = #ARGV == USUAL + 4 or #ARGV == USUAL_STORED + 4 or #ARGV == USUAL_REFERRING + 4
  local quick_replies = (is_one and record_one or record_several)(ARGV)
  if quick_replies then
    return quick_replies
  end

  gather()
  local replies, i = {}, 2
  while i < #ARGV - 2 do
    local last = i + tonumber(ARGV[i])
    local alone = #replies == 0 and last == #ARGV - 2
    if last < i + STORED - 1 then
      local full = in_full(ARGV, i + 1, last)
      replies[#replies + 1] = record(full, 1, #full, alone)
    else
      replies[#replies + 1] = record(ARGV, i + 1, last, alone)
    end
    i = last + 1
  end
  forget_oldest()
  carry_out()
  tell_places(replies)
  return replies
end

return main(ARGV)
